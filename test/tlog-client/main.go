// Reads a log with public libraries of transparency logs: golang.org/x/mod/sumdb and github.com/transparency-dev. Nothing here is of this repository.
//
//	LEDGER_KEY=… tlog-client https://ledger.example.com/v1/tenants/acme <vkey of the log> [<vkey of a witness>…]
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"

	f_log "github.com/transparency-dev/formats/log"
	f_note "github.com/transparency-dev/formats/note"
	f_proof "github.com/transparency-dev/formats/proof"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type client struct {
	base, origin string
	verifier     note.Verifier
	witnesses    []note.Verifier
}

func main() {
	c := &client{base: os.Args[1], origin: strings.SplitN(os.Args[2], "+", 2)[0], verifier: must(note.NewVerifier(os.Args[2]))}
	for _, vkey := range os.Args[3:] {
		c.witnesses = append(c.witnesses, must(f_note.NewVerifierForCosignatureV1(vkey)))
	}
	checkpoint, signed := c.open(c.get("/tlog/checkpoint"))
	fmt.Printf("checkpoint of %d witnesses\n", len(signed.Sigs)-1)

	size := int64(checkpoint.Size)
	tree := tlog.Tree{N: size, Hash: tlog.Hash(checkpoint.Hash)}
	hashes := tlog.TileHashReader(tree, c)
	leaves := c.leaves(size, hashes)
	fmt.Printf("tiles of %d leaves\n", len(leaves))

	events := 0
	for index := 0; index < len(leaves); index += 5 {
		c.proveEvent(uint64(index), leaves[index])
		events++
	}
	fmt.Printf("proofs of %d events\n", events)

	sizes := []int64{1, 2, 3, size / 2, 255, 256, 257, size - 1, size}
	proved := 0
	for _, old := range sizes {
		for _, later := range sizes {
			if old <= later && later <= size {
				c.proveConsistency(old, later, hashes)
				proved++
			}
		}
	}
	fmt.Printf("consistency of %d pairs\n", proved)
}

// open verifies a checkpoint by the keys of the log and of the witnesses.
func (c *client) open(text []byte) (*f_log.Checkpoint, *note.Note) {
	checkpoint, _, signed, err := f_log.ParseCheckpoint(text, c.origin, c.verifier, c.witnesses...)
	check(err)
	return checkpoint, signed
}

// leaves reads all tiles, which the reader checks against the root, and the entries under them.
func (c *client) leaves(size int64, hashes tlog.HashReader) []tlog.Hash {
	indexes := make([]int64, size)
	for n := range indexes {
		indexes[n] = tlog.StoredHashIndex(0, int64(n))
	}
	leaves := must(hashes.ReadHashes(indexes))
	var n int64
	for position := int64(0); position*256 < size; position++ {
		width := min(256, size-position*256)
		bundle := c.get(strings.Replace(pathOf(tlog.Tile{H: 8, L: 0, N: position, W: int(width)}), "/tile/0/", "/tile/entries/", 1))
		for len(bundle) > 0 {
			end := 2 + int(binary.BigEndian.Uint16(bundle))
			if tlog.RecordHash(bundle[2:end]) != leaves[n] {
				log.Fatalf("entry %d is not that of its leaf", n)
			}
			bundle = bundle[end:]
			n++
		}
	}
	if n != size {
		log.Fatalf("%d entries of %d leaves", n, size)
	}
	return leaves
}

// proveEvent checks the proof of an event: the event by its leaf, the leaf by the path, the root by the checkpoint.
func (c *client) proveEvent(index uint64, leaf tlog.Hash) {
	var p f_proof.TLogProof
	text := c.get(fmt.Sprintf("/events/%d/proof?format=tlog-proof", index+1))
	check(p.Unmarshal(text))
	if p.Index != index || !bytes.Equal(p.Marshal(), text) {
		log.Fatalf("the proof of %d is one of %d, or written otherwise", index, p.Index)
	}
	var event struct {
		Header, Payload, PayloadHash, PreviousHash string
	}
	check(json.Unmarshal([]byte(strings.NewReplacer("payload_hash", "PayloadHash", "previous_hash", "PreviousHash").Replace(string(p.ExtraData))), &event))
	payload, previous := sha256.Sum256(must(base64.StdEncoding.DecodeString(event.Payload))), must(hex.DecodeString(event.PreviousHash))
	if hex.EncodeToString(payload[:]) != event.PayloadHash {
		log.Fatalf("the payload of %d has another hash", index)
	}
	header := sha256.Sum256([]byte(event.Header))
	hash := sha256.Sum256(bytes.Join([][]byte{previous, header[:], payload[:]}, nil))
	if tlog.RecordHash(hash[:]) != leaf {
		log.Fatalf("the event %d is not that of its leaf", index)
	}
	checkpoint, _ := c.open(p.Checkpoint)
	var path [][]byte
	for _, each := range p.Hashes {
		path = append(path, each[:])
	}
	check(proof.VerifyInclusion(rfc6962.DefaultHasher, index, checkpoint.Size, leaf[:], path, checkpoint.Hash))
}

// proveConsistency checks that a tree begins with an earlier one, by two libraries.
func (c *client) proveConsistency(old, later int64, hashes tlog.HashReader) {
	var answer struct {
		Data struct {
			Consistency struct{ Path [][]byte }
		}
	}
	check(json.Unmarshal(c.get(fmt.Sprintf("/tlog/consistency?old=%d&new=%d", old, later)), &answer))
	before, after := must(tlog.TreeHash(old, hashes)), must(tlog.TreeHash(later, hashes))
	path := answer.Data.Consistency.Path
	check(proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(old), uint64(later), path, before[:], after[:]))
	var tree tlog.TreeProof
	for _, each := range path {
		tree = append(tree, tlog.Hash(each))
	}
	check(tlog.CheckTree(tree, later, after, old, before))
}

// Height, ReadTiles and SaveTiles make the client a tlog.TileReader.
func (c *client) Height() int { return 8 }

func (c *client) ReadTiles(tiles []tlog.Tile) (data [][]byte, err error) {
	for _, tile := range tiles {
		data = append(data, c.get(pathOf(tile)))
	}
	return data, nil
}

func (c *client) SaveTiles([]tlog.Tile, [][]byte) {}

// pathOf leaves out the height, which https://c2sp.org/tlog-tiles has fixed.
func pathOf(tile tlog.Tile) string {
	return "/tlog/" + strings.Replace(tile.Path(), "tile/8/", "tile/", 1)
}

func (c *client) get(path string) []byte {
	request := must(http.NewRequest("GET", c.base+path, nil))
	request.Header.Set("Authorization", "Bearer "+os.Getenv("LEDGER_KEY"))
	response := must(http.DefaultClient.Do(request))
	defer response.Body.Close()
	body := must(io.ReadAll(response.Body))
	if response.StatusCode != 200 {
		log.Fatalf("%s: %s %s", path, response.Status, body)
	}
	return body
}

func must[Value any](value Value, err error) Value {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

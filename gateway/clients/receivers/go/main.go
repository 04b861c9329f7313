// Receives webhooks of the ledger and handles each event once: WEBHOOK_SECRET=whsec_… PORT=4242 go run .
package main

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	_ "modernc.org/sqlite"
)

type event struct {
	ID, Type string
	Livemode bool
	Data     json.RawMessage
}

// A panic ends the request without an answer, so that the ledger sends it again.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func receiveOnce(db *sql.DB, e event) {
	tx := must(db.Begin())
	defer tx.Rollback()
	done := must(tx.Exec("insert into events (id, type, data) values (?, ?, ?) on conflict do nothing", e.ID, e.Type, string(e.Data)))
	if must(done.RowsAffected()) == 1 {
		fmt.Println(e.Type, e.ID) // your own work: in the transaction that keeps the id, so that neither is there without the other
	}
	must(0, tx.Commit())
}

func main() {
	secret := os.Getenv("WEBHOOK_SECRET")
	webhook := must(standardwebhooks.NewWebhookRaw([]byte(secret))) // a secret of your own is used as it is
	if strings.HasPrefix(secret, "whsec_") {
		webhook = must(standardwebhooks.NewWebhook(secret))
	}
	db := must(sql.Open("sqlite", cmp.Or(os.Getenv("DATABASE"), "receiver.sqlite")+"?_pragma=busy_timeout(10000)&_txlock=immediate"))
	must(db.Exec("create table if not exists events (id text primary key, type text not null, data text not null)"))
	must(0, http.ListenAndServe(":"+cmp.Or(os.Getenv("PORT"), "4242"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, body := event{}, must(io.ReadAll(r.Body))
		if webhook.Verify(body, r.Header) != nil { // over the raw bytes; also where it is older than five minutes
			w.WriteHeader(http.StatusUnauthorized)
		} else if must(0, json.Unmarshal(body, &e)); e.Livemode {
			receiveOnce(db, e)
		} else {
			fmt.Println("test", e.Type, e.ID)
		}
	})))
}

package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tmaxmax/go-sse"
)

// StreamedEvent is an event of the log, or one that is derived from it. Hash is that of the event in the log.
type StreamedEvent struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Sequence int64          `json:"sequence"`
	Created  int64          `json:"created"`
	Data     map[string]any `json:"data"`
	Hash     string         `json:"hash"`
}

var errEnded = errors.New("the stream ended")

// Listen yields every event after a sequence once, in order, and then as it happens; also after breaks. It ends with the context, and with
// an error where the credential ends. Without types it is all of the log.
func (s *EventsService) Listen(ctx context.Context, after int64, types ...string) iter.Seq2[StreamedEvent, error] {
	return func(yield func(StreamedEvent, error) bool) {
		position := &position{after: after, wait: 200 * time.Millisecond}
		for ctx.Err() == nil {
			goOn, err := s.read(ctx, position, types, yield)
			var failed *Error
			if errors.As(err, &failed) && !slices.Contains([]int{0, 408, 429, 500, 502, 503, 504}, failed.Status) {
				yield(StreamedEvent{}, err)
				return
			}
			if !goOn {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(float64(position.wait) * (0.5 + rand.Float64()/2))):
			}
			position.wait = min(position.wait*2, 10*time.Second)
		}
	}
}

// position is how far a stream was read. seen: messages of one sequence that came before a break; they come again.
type position struct {
	after int64
	seen  int
	wait  time.Duration
}

func (s *EventsService) read(ctx context.Context, at *position, types []string, yield func(StreamedEvent, error) bool) (bool, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	query := map[string]any{"after_sequence": at.after}
	if len(types) > 0 {
		query["types"] = strings.Join(types, ",")
	}
	response, err := respond(ctx, s.client, operation{method: "GET", path: "/v1/tenants/{slug}/events/stream", by: "key"}, nil, nil, query, nil)
	if err != nil {
		return true, err
	}
	defer response.Body.Close()
	skip := at.seen
	for message, err := range sse.Read(watched(response, end), nil) {
		if err != nil {
			return true, err
		}
		at.wait = 200 * time.Millisecond
		if message.Type == "end" {
			return true, fmt.Errorf("%w: %s", errEnded, message.Data)
		}
		var event StreamedEvent
		if err := json.Unmarshal([]byte(message.Data), &event); err != nil {
			return true, err
		}
		if skip > 0 {
			skip--
		} else if !yield(event, nil) {
			return false, nil
		}
		// The last id is repeated where a message has none: a message has its own where that is its sequence.
		at.seen++
		if message.LastEventID == fmt.Sprint(event.Sequence) {
			at.after, at.seen = event.Sequence, 0
		}
	}
	return true, errEnded
}

// watched ends a stream that is silent: a comment comes every 15 s.
func watched(response *http.Response, end func()) io.Reader {
	silence := time.AfterFunc(45*time.Second, end)
	return readerFunc(func(into []byte) (int, error) {
		count, err := response.Body.Read(into)
		silence.Reset(45 * time.Second)
		return count, err
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(into []byte) (int, error) { return f(into) }

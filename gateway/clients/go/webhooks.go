package ledger

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Delivery is what a receiver gets. A test (Livemode false) has the type of an event, and says nothing that happened.
type Delivery struct {
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Created  int64           `json:"created"`
	TenantID string          `json:"tenant_id"`
	Livemode bool            `json:"livemode"`
	Data     json.RawMessage `json:"data"`
}

// VerifyWebhook checks the signature over the raw bytes of the body and its age (5 minutes), and reads the event. An event may arrive twice:
// keep its ID, and do nothing where you have it.
func VerifyWebhook(body []byte, headers http.Header, secret string) (*Delivery, error) {
	key := []byte(secret)
	if encoded, isOurs := strings.CutPrefix(secret, "whsec_"); isOurs {
		// Any other secret is its own key.
		if decoded, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			key = decoded
		}
	}
	checker, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		return nil, err
	}
	if err := checker.Verify(body, headers); err != nil {
		return nil, err
	}
	var delivery Delivery
	return &delivery, json.Unmarshal(body, &delivery)
}

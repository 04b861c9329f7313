package ledger

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"math"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// operation is what the generated methods say of a call.
type operation struct {
	method, path, by, body string
	takesKey, repeatable   bool
}

// Error is a call that failed.
type Error struct {
	// Status is 0 where there was no answer.
	Status int
	// Code is the API's. no_answer: none came; bad_answer: it was not the API's; no_credential: none was given.
	Code      ErrorCode
	Message   string
	RequestID string
	// Details are the first wrong field, Errors all of them.
	Details *ProblemDetails
	Errors  []FieldError
	// IdempotencyKey: sent again with it, the request is done once.
	IdempotencyKey string
	// OutcomeUnknown: the request may have been done although it failed.
	OutcomeUnknown bool
	cause          error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s", e.Code, e.Message)
	for _, wrong := range e.Errors {
		text += "; " + wrong.Message
	}
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// Unwrap is why there was no answer.
func (e *Error) Unwrap() error { return e.cause }

type callOptions struct {
	key        string
	header     http.Header
	onResponse func(*http.Response)
}

// CallOption changes one call.
type CallOption func(*callOptions)

// WithIdempotencyKey makes the same thing happen once. By default it is a random one, made before the first attempt.
func WithIdempotencyKey(key string) CallOption { return func(o *callOptions) { o.key = key } }

// WithHeader sends a header field.
func WithHeader(name, value string) CallOption {
	return func(o *callOptions) { o.header.Set(name, value) }
}

// OnResponse sees the response, for example for Idempotent-Replayed.
func OnResponse(see func(*http.Response)) CallOption {
	return func(o *callOptions) { o.onResponse = see }
}

// attempt is what the retries know of a call.
type attempt struct {
	repeatable, whole bool
	readError         error
}

type attemptKey struct{}

// retrying retries what may be repeated where no whole answer came, and after answers that pass.
func retrying(client *http.Client, retries *int) *retryablehttp.Client {
	most := 3
	if retries != nil {
		most = *retries
	}
	return &retryablehttp.Client{
		HTTPClient:   client,
		RetryMax:     most,
		RetryWaitMin: 200 * time.Millisecond,
		RetryWaitMax: 30 * time.Second,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
		CheckRetry: func(ctx context.Context, response *http.Response, err error) (bool, error) {
			state := ctx.Value(attemptKey{}).(*attempt)
			state.readError = nil
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			if err != nil {
				return state.repeatable, nil
			}
			if state.whole || response.StatusCode >= 300 {
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				response.Body = io.NopCloser(bytes.NewReader(body))
				if state.readError = err; err != nil {
					return state.repeatable, nil
				}
			}
			passing := []int{408, 429, 500, 502, 503, 504}
			return state.repeatable && slices.Contains(passing, response.StatusCode) && waitOf(response) <= 30*time.Second, nil
		},
		Backoff: func(min, max time.Duration, number int, response *http.Response) time.Duration {
			if wait := waitOf(response); wait > 0 {
				return wait
			}
			return time.Duration(float64(min) * math.Pow(2, float64(number)) * (0.5 + mathrand.Float64()))
		},
	}
}

func waitOf(response *http.Response) time.Duration {
	if response == nil {
		return 0
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return time.Duration(seconds) * time.Second
}

// call answers what the API has in data.
func call[T any](ctx context.Context, c *Client, op operation, parameters []string, body, query any, options []CallOption) (*T, error) {
	envelope, err := decode[struct {
		Data T `json:"data"`
	}](ctx, c, op, parameters, body, query, options)
	if err != nil {
		return nil, err
	}
	return &envelope.Data, nil
}

// decode answers the whole JSON.
func decode[T any](ctx context.Context, c *Client, op operation, parameters []string, body, query any, options []CallOption) (*T, error) {
	response, err := c.send(ctx, c.whole, op, parameters, body, query, options)
	if err != nil {
		return nil, err
	}
	var answer T
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, &Error{Status: response.StatusCode, Code: "bad_answer", Message: err.Error(), OutcomeUnknown: op.method != "GET", cause: err}
	}
	return &answer, nil
}

// respond answers the response, which the caller reads and closes.
func respond(ctx context.Context, c *Client, op operation, parameters []string, body, query any, options []CallOption) (*http.Response, error) {
	return c.send(ctx, c.open, op, parameters, body, query, options)
}

var place = regexp.MustCompile(`\{\w+\}`)

// urlOf fills the path: the client knows its tenant.
func (c *Client) urlOf(ctx context.Context, op operation, parameters []string, query any) (string, error) {
	var failed error
	path := place.ReplaceAllStringFunc(op.path, func(name string) string {
		var value string
		switch name {
		case "{slug}":
			value, failed = c.slug()
		case "{tenant_id}":
			c.mutex.Lock()
			value, failed = c.idOfTenant(ctx)
			c.mutex.Unlock()
		default:
			value, parameters = parameters[0], parameters[1:]
		}
		// A path with dots would be another route's.
		if failed == nil && slices.Contains([]string{"", ".", ".."}, value) {
			failed = fmt.Errorf("%s is %q", name, value)
		}
		return url.PathEscape(value)
	})
	if failed != nil {
		return "", failed
	}
	values, err := queryOf(query)
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	return c.options.URL + path, err
}

// queryOf reads parameters by their names in JSON, which are those of the query.
func queryOf(query any) (url.Values, error) {
	values := url.Values{}
	text, err := json.Marshal(query)
	if err != nil {
		return values, err
	}
	fields := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return values, err
	}
	for name, value := range fields {
		list, isList := value.([]any)
		if !isList {
			list = []any{value}
		}
		for _, each := range list {
			values.Add(name, fmt.Sprint(each))
		}
	}
	return values, nil
}

// contentOf is the body: the same bytes on each attempt, and the key that it has itself.
func contentOf(op operation, body any) (content []byte, key string, err error) {
	if lines, isText := body.([]byte); isText {
		return lines, "", nil
	}
	if content, err = json.Marshal(body); err != nil || op.body == "" || string(content) == "null" {
		return nil, "", err
	}
	var own struct {
		Key string `json:"idempotency_key"`
	}
	_ = json.Unmarshal(content, &own)
	return content, own.Key, nil
}

func (c *Client) send(ctx context.Context, through *retryablehttp.Client, op operation, parameters []string, body, query any, options []CallOption) (*http.Response, error) {
	given := callOptions{header: http.Header{}}
	for _, change := range options {
		change(&given)
	}
	target, err := c.urlOf(ctx, op, parameters, query)
	if err != nil {
		return nil, err
	}
	content, key, err := contentOf(op, body)
	if err != nil {
		return nil, err
	}
	if op.takesKey && key == "" {
		if key = given.key; key == "" {
			key = rand.Text()
		}
		given.header.Set("Idempotency-Key", key)
	}
	if content != nil {
		given.header.Set("Content-Type", op.body)
	}
	var credential Credential
	if op.by != "none" {
		if credential, err = c.credential(op.by); err != nil {
			return nil, err
		}
	}
	for expired := false; ; expired = true {
		state := &attempt{repeatable: op.repeatable, whole: through == c.whole}
		request, err := retryablehttp.NewRequestWithContext(context.WithValue(ctx, attemptKey{}, state), op.method, target, content)
		if err != nil {
			return nil, err
		}
		request.Header = given.header.Clone()
		if credential != nil {
			text, err := credential(ctx, expired)
			if err != nil {
				return nil, err
			}
			request.Header.Set("Authorization", "Bearer "+text)
		}
		response, err := through.Do(request)
		if err == nil {
			err = state.readError
		}
		if err != nil {
			return nil, &Error{Code: "no_answer", Message: err.Error(), IdempotencyKey: key, OutcomeUnknown: op.method != "GET", cause: err}
		}
		if given.onResponse != nil {
			given.onResponse(response)
		}
		if response.StatusCode < 300 {
			return response, nil
		}
		if response.StatusCode != 401 || credential == nil || expired {
			return nil, errorOf(op, response, key)
		}
	}
}

func errorOf(op operation, response *http.Response, key string) error {
	failed := &Error{Status: response.StatusCode, IdempotencyKey: key, OutcomeUnknown: op.method != "GET" && response.StatusCode >= 500}
	var problem struct {
		Error     string          `json:"error"`
		Code      ErrorCode       `json:"code"`
		RequestID string          `json:"request_id"`
		Details   *ProblemDetails `json:"details"`
		Errors    []FieldError    `json:"errors"`
	}
	if json.NewDecoder(response.Body).Decode(&problem) != nil || problem.Code == "" {
		failed.Code, failed.Message = "bad_answer", "the server answered "+response.Status
		return failed
	}
	failed.Code, failed.Message, failed.RequestID = problem.Code, problem.Error, problem.RequestID
	failed.Details, failed.Errors = problem.Details, problem.Errors
	return failed
}

// Package ledger is the client of the ledger: New has a method for every operation.
package ledger

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// Credential gets a credential; expired: the last one was refused. It is called once more after a 401.
type Credential func(ctx context.Context, expired bool) (string, error)

// Static is a credential that stays.
func Static(text string) Credential {
	return func(context.Context, bool) (string, error) { return text, nil }
}

// Options say where the ledger is, and who calls it.
type Options struct {
	// URL is https://ledger.example.com, with its path if it has one.
	URL string
	// Tenant is the slug of a tenant, needed for all that belongs to one.
	Tenant string
	// Key is an API key or access key. Without it, and with a Token, an access key is got and renewed.
	Key Credential
	// Token is the JWT of a login: for users, tenants, members and keys.
	Token Credential
	// Scopes of the access key; none: all of the role.
	Scopes []Scope
	// Retries after the first attempt, of what may be repeated: 3 where it is nil.
	Retries *int
	// Timeout of each attempt: 15 s where it is zero.
	Timeout time.Duration
	// Transport is http.DefaultTransport where it is nil.
	Transport *http.Transport
}

// Client calls the API of one tenant, or without a tenant that of users. It may be used by many goroutines.
type Client struct {
	services
	options Options
	// For answers that are read at once, and for those that the caller reads.
	whole, open *retryablehttp.Client
	mutex       sync.Mutex
	tenantID    string
	access      *AccessKey
}

// New makes a client.
func New(options Options) *Client {
	options.URL = strings.TrimRight(options.URL, "/")
	if options.Timeout == 0 {
		options.Timeout = 15 * time.Second
	}
	client := &Client{options: options}
	if options.Key == nil && options.Token != nil {
		client.options.Key = client.accessKey
	}
	transport := options.Transport
	if transport == nil {
		// Tracing may have replaced the default.
		if standard, isStandard := http.DefaultTransport.(*http.Transport); isStandard {
			transport = standard
		} else {
			transport = &http.Transport{Proxy: http.ProxyFromEnvironment}
		}
	}
	transport = transport.Clone()
	if transport.MaxIdleConnsPerHost == 0 {
		// Of 2 connections: many goroutines would open a new one for each call.
		transport.MaxIdleConnsPerHost = 100
	}
	transport.ResponseHeaderTimeout = options.Timeout
	// Credentials, and passwords in bodies, go to no other server.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.whole = retrying(&http.Client{Transport: transport, Timeout: options.Timeout, CheckRedirect: stay}, options.Retries)
	client.open = retrying(&http.Client{Transport: transport, CheckRedirect: stay}, options.Retries)
	client.services = newServices(client)
	return client
}

// WithTenant is the same login for another tenant. A key belongs to one tenant: it is not taken along.
func (c *Client) WithTenant(tenant string) *Client {
	options := c.options
	options.Tenant, options.Key = tenant, nil
	return New(options)
}

func (c *Client) credential(by string) (Credential, error) {
	found := c.options.Key
	if by == "token" {
		found = c.options.Token
	}
	if found == nil {
		return nil, &Error{Code: "no_credential", Message: "this call needs a " + by}
	}
	return found, nil
}

// accessKey is shared by all calls until a minute before its end.
func (c *Client) accessKey(ctx context.Context, expired bool) (string, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if expired || c.access == nil || time.Until(c.access.ExpiresAt) < time.Minute {
		body := CreateAccessRequest{}
		if len(c.options.Scopes) > 0 {
			body.Scopes = &c.options.Scopes
		}
		id, err := c.idOfTenant(ctx)
		if err != nil {
			return "", err
		}
		made, err := call[CreateAccessData](ctx, c, operation{method: "POST", path: "/v1/tenants/{id}/access", by: "token", body: "application/json"}, []string{id}, body, nil, nil)
		if err != nil {
			return "", err
		}
		c.access = &made.Access
	}
	return c.access.Key, nil
}

func (c *Client) slug() (string, error) {
	if c.options.Tenant == "" {
		return "", errors.New("this call needs a client with a tenant")
	}
	return c.options.Tenant, nil
}

// idOfTenant is called with the mutex locked.
func (c *Client) idOfTenant(ctx context.Context) (string, error) {
	slug, err := c.slug()
	if err != nil || c.tenantID != "" {
		return c.tenantID, err
	}
	for tenant, err := range c.Tenants.ListAll(ctx, nil) {
		if err != nil {
			return "", err
		}
		if tenant.Slug == slug {
			c.tenantID = tenant.Id
			return tenant.Id, nil
		}
	}
	return "", &Error{Status: 404, Code: "tenant_not_found", Message: "you are no member of " + slug}
}

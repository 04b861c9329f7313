// A walk through the API: prints a line for each call. Needs LEDGER_URL, and of a new tenant LEDGER_TENANT, LEDGER_TOKEN and perhaps
// LEDGER_API_KEY.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	ledger "ledger.example/client"
)

const bank, wallets = "SETTLEMENT-USD", "CUSTOMER-WALLETS-USD"

func say(call string, values ...any) { fmt.Println(append([]any{call}, values...)...) }

// must ends the program with an error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func codeOf[T any](_ T, err error) ledger.ErrorCode {
	var failed *ledger.Error
	if !errors.As(err, &failed) {
		log.Fatal("no error of the ledger: ", err)
	}
	return failed.Code
}

func all[T any](items func(func(T, error) bool)) (list []T) {
	for item, err := range items {
		list = append(list, must(item, err))
	}
	return list
}

func read(response *http.Response, err error) string {
	must(response, err)
	defer response.Body.Close()
	return string(must(io.ReadAll(response.Body)))
}

func entries(from, to, amount string) []ledger.EntryInput {
	return []ledger.EntryInput{
		{AccountCode: from, Side: ledger.SideDebit, Amount: amount, Currency: ledger.CurrencyUSD},
		{AccountCode: to, Side: ledger.SideCredit, Amount: amount, Currency: ledger.CurrencyUSD},
	}
}

func item(name string) map[string]any {
	return map[string]any{"op": "double", "idempotency_key": name, "entries": entries(bank, wallets, "1.00")}
}

func pointer[T any](value T) *T { return &value }

func main() {
	ctx := context.Background()
	tenant := os.Getenv("LEDGER_TENANT")
	options := ledger.Options{URL: os.Getenv("LEDGER_URL"), Tenant: tenant, Token: ledger.Static(os.Getenv("LEDGER_TOKEN"))}
	if key := os.Getenv("LEDGER_API_KEY"); key != "" {
		options.Key = ledger.Static(key)
	}
	client := ledger.New(options)
	people(ctx, client, tenant)
	accounts(ctx, client)
	postings(ctx, client)
	holds(ctx, client)
	reports(ctx, client)
	events(ctx, client)
	verify()
}

func people(ctx context.Context, client *ledger.Client, tenant string) {
	say("service.readiness", must(client.Service.Readiness(ctx)).Status)
	if must(client.User.Get(ctx)).User.Email != "" {
		say("user.get", "string")
	}
	found := false
	for _, each := range all(client.Tenants.ListAll(ctx, nil)) {
		found = found || each.Slug == tenant
	}
	say("tenants.list", found)
	say("members.list", must(client.Members.List(ctx, nil)).Members[0].Role)
	say("keys.list", len(all(client.Keys.ListAll(ctx, nil))))
}

func accounts(ctx context.Context, client *ledger.Client) {
	say("accounts.setUp", must(client.Accounts.SetUp(ctx, ledger.SetUpChartRequest{BusinessType: "wallet"})).BusinessType)
	say("accounts.tree", len(must(client.Accounts.Tree(ctx, &ledger.GetHierarchyParams{Depth: pointer(1)})).Accounts))
	petty := ledger.CreateAccountRequest{AccountCode: "PETTY-CASH", Name: "Petty cash", Type: ledger.AccountTypeAsset}
	say("accounts.create", must(client.Accounts.Create(ctx, petty)).Account.NormalBalance)
	say("accounts.update", must(client.Accounts.Update(ctx, "PETTY-CASH", &ledger.UpdateAccountRequest{Name: pointer("Coins")})).Account.Version)
	say("accounts.get", must(client.Accounts.Get(ctx, "PETTY-CASH")).Account.Name)
	page := must(client.Accounts.List(ctx, &ledger.ListAccountsParams{Limit: pointer(100)}))
	say("accounts.list", len(all(client.Accounts.ListAll(ctx, &ledger.ListAccountsParams{Limit: pointer(5)}))) == len(page.Accounts))
}

func postings(ctx context.Context, client *ledger.Client) {
	posting := ledger.PostDoubleRequest{Description: pointer("Deposit"), IdempotencyKey: pointer("example-1"), Entries: entries(bank, wallets, "100.00")}
	transaction := must(client.Transactions.Post(ctx, posting)).Transaction
	say("transactions.post", *transaction.Amount)
	say("transactions.post again", must(client.Transactions.Post(ctx, posting)).Transaction.TransactionId == transaction.TransactionId)
	tried := must(must(client.Transactions.PostDryRun(ctx, ledger.PostDoubleRequest{Entries: entries(bank, wallets, "1.00")})).Transaction.AsTriedTransaction())
	if tried.TransactionId == nil {
		say("transactions.post dry run", "")
	}
	say("transactions.post refused", codeOf(client.Transactions.Post(ctx, ledger.PostDoubleRequest{Entries: entries(wallets, bank, "9999.00")})))
	single := ledger.PostSingleRequest{AccountCode: wallets, Side: ledger.SideCredit, Amount: "5.00", Currency: ledger.CurrencyUSD}
	say("transactions.postSingle", must(client.Transactions.PostSingle(ctx, single)).Transaction.Kind)
	var batch ledger.SubmitBatchRequest
	text := must(json.Marshal(map[string]any{"items": []any{item("example-2"), item("example-3")}}))
	must(0, json.Unmarshal(text, &batch))
	done := must(client.Transactions.Batch(ctx, batch))
	say("transactions.batch", done.Posted+done.Replayed)
	lines := string(must(json.Marshal(item("example-4")))) + "\n" + string(must(json.Marshal(item("example-5"))))
	answer := strings.Split(strings.TrimSpace(read(client.Transactions.Import(ctx, []byte(lines), nil))), "\n")
	var last struct{ Posted, Replayed int }
	must(0, json.Unmarshal([]byte(answer[len(answer)-1]), &last))
	say("transactions.import", last.Posted+last.Replayed)
	say("transactions.get", must(client.Transactions.Get(ctx, transaction.TransactionId)).Transaction.Description)
	say("transactions.reverse", *must(client.Transactions.Reverse(ctx, transaction.TransactionId, &ledger.ReverseTransactionRequest{Amount: pointer("40.00")})).Transaction.Amount)
	amounts := []string{}
	for _, each := range all(client.Transactions.ListAll(ctx, &ledger.ListTransactionsParams{Limit: pointer(2)})) {
		amounts = append(amounts, *each.Amount)
	}
	say("transactions.list", len(amounts), must(ledger.Sum(amounts...)))
}

func holds(ctx context.Context, client *ledger.Client) {
	hold := must(client.Holds.Create(ctx, ledger.CreateHoldRequest{Entries: entries(wallets, bank, "10.00")})).Hold
	say("holds.create", hold.Status)
	say("holds.capture", *must(client.Holds.Capture(ctx, hold.HoldId, &ledger.CaptureHoldRequest{Amount: pointer("4.00"), Final: pointer(false)})).Transaction.Amount)
	say("holds.void", must(client.Holds.Void(ctx, hold.HoldId, nil, nil)).Hold.Status)
	balance := must(client.Accounts.Balance(ctx, wallets, &ledger.GetBalanceParams{Currency: pointer(ledger.CurrencyUSD)})).Balance
	say("accounts.balance", balance.Balance, *balance.Available)
}

func reports(ctx context.Context, client *ledger.Client) {
	dollars := ledger.GetTrialBalanceParams{Currency: pointer(ledger.CurrencyUSD)}
	say("reports.trialBalance", len(must(client.Reports.TrialBalance(ctx, &dollars)).Report.Totals))
	dollars.Format = pointer(ledger.ReportFormatCsv)
	say("reports.trialBalance file", read(client.Reports.TrialBalanceFile(ctx, &dollars))[:12])
	job := must(client.Reports.StartJournal(ctx, &ledger.StartJournalRequest{Format: pointer(ledger.ReportFormatCsv)})).Job
	for job.Status == "queued" || job.Status == "running" {
		time.Sleep(100 * time.Millisecond)
		job = must(client.Jobs.Get(ctx, job.Id)).Job
	}
	say("jobs.wait", job.Status)
	say("filters.set", must(client.Filters.Set(ctx, "deposits", ledger.PutFilterRequest{Query: "q=deposit"})).Filter.Name)
	say("books.get", must(client.Books.Get(ctx)).Books.Status)
}

func events(ctx context.Context, client *ledger.Client) {
	isGapless, last := true, int64(0)
	for event, err := range client.Events.ListAll(ctx, &ledger.ListEventsParams{Limit: pointer(10)}) {
		isGapless = isGapless && must(event, err).Sequence == last+1
		last = event.Sequence
	}
	say("events.list", isGapless)
	received := 0
	for event, err := range client.Events.Listen(ctx, last-3) {
		received++
		if must(event, err).Sequence == last {
			break
		}
	}
	say("events.listen", received)
	say("deliveries.list", must(client.Deliveries.List(ctx, &ledger.ListDeliveriesParams{Limit: pointer(1)})).Pagination.Total)
	say("errors", codeOf(client.Accounts.Get(ctx, "NO-SUCH-ACCOUNT")))
}

func verify() {
	var given struct {
		Body, Secret string
		Headers      map[string]string
	}
	if json.Unmarshal([]byte(os.Getenv("LEDGER_DELIVERY")), &given) != nil {
		return
	}
	headers := http.Header{}
	for name, value := range given.Headers {
		headers.Set(name, value)
	}
	say("webhooks.verify", must(ledger.VerifyWebhook([]byte(given.Body), headers, given.Secret)).Type)
	if _, err := ledger.VerifyWebhook([]byte(given.Body+" "), headers, given.Secret); err != nil {
		say("webhooks.verify refused")
	}
}

-- One window of load for wrk: double-entry postings with a key of their own each, or reads.
-- Arguments after `--`: `posting`, `balance`, `page` (the newest of the transactions), `history` (of a balance) or `past` (a balance as of the last argument), a file of `slug key` lines, customers per tenant, a name of six characters for the series,
-- `hot` where every posting credits the merchant, and every balance is his (else `spread`). Everything that varies has a fixed width, so the length is known.

local threads = {}

local reading = {
  balance = { '/accounts/code/', '/balance?currency=NGN' },
  history = { '/accounts/code/', '/balance/history?currency=NGN' },
  page = { '/transactions', '' },
}

function setup(thread)
  table.insert(threads, thread)
  thread:set('number', #threads)
end

function init(args)
  series = string.format('%s-%d', args[4], number)
  customers = tonumber(args[3])
  reads = reading[args[1]]
  if args[1] == 'past' then reads = { reading.balance[1], reading.balance[2] .. '&as_of=' .. args[6] } end
  named = args[1] ~= 'page'
  hot = args[5] == 'hot'
  counter = 0
  -- Threads and windows must not draw the same numbers.
  local seed = number
  for place = 1, #series do seed = seed * 31 + series:byte(place) end
  math.randomseed(seed)
  local length = #body(0, 1, 2, 1000)
  heads = {}
  for line in io.lines(args[2]) do
    local slug, key = line:match('(%S+) (%S+)')
    local common = ' HTTP/1.1\r\nHost: ' .. wrk.host .. ':' .. wrk.port .. '\r\nAuthorization: Bearer ' .. key .. '\r\n'
    if reads then
      table.insert(heads, { 'GET /v1/tenants/' .. slug .. reads[1], reads[2] .. common .. '\r\n' })
    else
      table.insert(heads, {
        'POST /v1/tenants/' .. slug .. '/transactions/double-entry' .. common
          .. 'Content-Type: application/json\r\nContent-Length: ' .. length .. '\r\n\r\n',
      })
    end
  end
end

function wallet(customer)
  return string.format('WALLET-%04d', customer)
end

-- The posting of posting.ts as JSON. `amount`: minor units, four digits.
function body(count, from, to, amount)
  local id = string.format('%s-%09d', series, count)
  local line = '","amount":"' .. string.format('%d.%02d', math.floor(amount / 100), amount % 100) .. '","side":"'
  return '{"idempotency_key":"bench-' .. id .. '","description":"Transfer between wallets","reference":"INV-' .. id
    .. '","entries":[{"account_code":"' .. wallet(from) .. line .. 'debit","currency":"NGN"},{"account_code":"' .. wallet(to) .. line
    .. 'credit","currency":"NGN"}],"metadata":{"channel":"mobile","order":"' .. string.format('%09d', count) .. '"}}'
end

function request()
  local head = heads[math.random(#heads)]
  local from = math.random(customers)
  if reads then return head[1] .. (named and wallet(hot and 0 or from) or '') .. head[2] end
  counter = counter + 1
  local to = hot and 0 or (from + math.random(customers - 1) - 1) % customers + 1
  return head[1] .. body(counter, from, to, math.random(1000, 9899))
end

function done(summary, latency, requests)
  local sent = 0
  for _, thread in ipairs(threads) do sent = sent + thread:get('counter') end
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"sent":%d,"microseconds":%d,"p50":%d,"p99":%d,"refused":%d,"broken":%d}\n',
    summary.requests, sent, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout
  ))
end

-- Closed-loop load whose every answer is checked; prints one JSON line at the end.
-- wrk ... -s load.lua URL -- BODY_FILE ANSWER_BYTES FIRST COUNT
--   @NUMBER@ in the body becomes 16 digits, counted up from FIRST and begun anew after COUNT requests (0: never).
--   An answer that is not 200, or has another length than ANSWER_BYTES, is counted as wrong.

local threads = {}

function setup(thread)
  thread:set("wrong", 0)
  table.insert(threads, thread)
end

function init(args)
  local file = assert(io.open(args[1], "rb"))
  local body = file:read("*a")
  file:close()
  answer_bytes = tonumber(args[2])
  local first, count = tonumber(args[3]), tonumber(args[4])

  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  wrk.headers["Authorization"] = "Bearer sk-bench-0123456789abcdefghijklmnopqrstuvwxyz"
  local digits = "0000000000000000"
  wrk.body = body:gsub("@NUMBER@", digits)
  local whole = wrk.format()
  local from, to = whole:find(digits, 1, true)
  if not from then
    request = function() return whole end
    return
  end
  local before, after = whole:sub(1, from - 1), whole:sub(to + 1)
  local sent = 0
  request = function()
    local number = first + sent
    sent = sent + 1
    if sent == count then sent = 0 end
    return before .. string.format("%016d", number) .. after
  end
end

function response(status, headers, body)
  if status ~= 200 or #body ~= answer_bytes then wrong = wrong + 1 end
end

function done(summary, latency)
  local wrong = 0
  for _, thread in ipairs(threads) do wrong = wrong + thread:get("wrong") end
  local errors = summary.errors
  io.write(string.format(
    'JSON {"requests":%d,"took_us":%d,"wrong":%d,"failed":%d,"p50_us":%d,"p99_us":%d}\n',
    summary.requests, summary.duration, wrong, errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end

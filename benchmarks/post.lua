-- What wrk sends: the bodies of a file, one a line, as POST requests in turn; and the figures it ends with, as JSON.

local requests, turn = {}, 0

function init(arguments)
  for body in io.lines(arguments[1]) do
    requests[#requests + 1] = wrk.format("POST", nil, { ["Content-Type"] = "application/json" }, body)
  end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function done(summary, latency)
  local wrong = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %.6f, "refused": %d, "broken": %d, "p50_ms": %.3f, "p99_ms": %.3f}\n',
    summary.requests, summary.duration / 1e6, wrong.status,
    wrong.connect + wrong.read + wrong.write + wrong.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3
  ))
end

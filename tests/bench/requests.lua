-- wrk: walks a file of request targets, one a line (TARGETS), with METHOD and BODY_BYTES from the environment.
local targets = {}
local at = 0
local method = os.getenv("METHOD") or "GET"
local body = nil
if tonumber(os.getenv("BODY_BYTES") or "0") > 0 then
    body = string.rep("x", tonumber(os.getenv("BODY_BYTES")))
end
function init(args)
    for line in io.lines(os.getenv("TARGETS")) do
        targets[#targets + 1] = line
    end
    at = math.random(#targets)
end
function request()
    at = at % #targets + 1
    return wrk.format(method, targets[at], nil, body)
end
function done(summary, latency, requests)
    io.write(string.format("RESULT %d %d %d %d %d\n", summary.requests,
        summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.write +
        summary.errors.timeout, summary.duration, latency:percentile(50), latency:percentile(99)))
end

-- Checks a request with Sluice's checkers: http-request lua.sluice_gate NAMESPACE APP.
-- If the request is allowed, it sets txn.sluice_prefix and txn.sluice_name, and for the client
-- txn.sluice_policy and txn.sluice_limit, and continues. If it is denied, the client gets the
-- checker's status, headers and body. On any error, the client gets 503.

local listener = "abns@sluice-checkers" -- in haproxy.cfg
local limit = 6000                      -- response timeout in milliseconds

local unavailable = {
	status = 503,
	reason = "Service Unavailable",
	headers = {
		["content-type"] = { "application/json" },
		["retry-after"] = { "10" },
		["access-control-allow-origin"] = { "*" },
		["access-control-expose-headers"] = { "Retry-After" },
		["vary"] = { "Origin" },
		["cache-control"] = { "no-store" },
	},
	body = '{"code":"gate_unavailable","message":"API keys cannot be verified at the moment. Retry after the time in Retry-After."}',
}

-- HAProxy sets these headers.
local hop_by_hop = { ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["keep-alive"] = true }

-- Headers that are kept from an allowing response.
local kept = {
	["txn.sluice_prefix"] = "x-service-key-prefix",
	["txn.sluice_name"] = "x-service-key-name",
	["txn.sluice_policy"] = "ratelimit-policy",
	["txn.sluice_limit"] = "ratelimit",
}

-- list converts HAProxy's table of a header's values, which starts at 0, to a list.
local function list(values)
	local all = {}
	if values ~= nil then
		for i = 0, #values do
			all[#all + 1] = values[i]
		end
	end
	return all
end

-- check_headers returns the headers of a check, with every copy of the key, because two keys must be
-- rejected. Preflights are not checked.
local function check_headers(txn)
	local client = txn.http:req_get_headers()
	local headers = {
		["host"] = { "sluice-checker" },
		["x-forwarded-method"] = { txn.sf:method() },
		["x-forwarded-for"] = { txn.sf:src() },
		["x-sluice-check"] = { txn.sf:uuid() }, -- for the listener only
	}
	for _, name in ipairs({ "x-api-key", "x-request-id", "traceparent" }) do
		local values = list(client[name])
		if #values > 0 then
			headers[name] = values
		end
	end
	return headers
end

-- from_checker reports whether a response is a checker's, and not HAProxy's.
local function from_checker(res)
	if res == nil or res.status == nil or res.headers == nil then
		return false
	end
	if res.status == 200 then
		return true
	end
	local kind = res.headers["content-type"]
	return res.status >= 400 and kind ~= nil and kind[0] == "application/json"
end

local function deny(txn, res)
	local reply = txn:reply({ status = res.status, reason = res.reason, body = res.body })
	for name, values in pairs(res.headers) do
		if not hop_by_hop[name] then
			for _, value in pairs(values) do
				reply:add_header(name, value)
			end
		end
	end
	txn:done(reply)
end

local function gate(txn, namespace, app)
	local ok, res = pcall(function()
		return core.httpclient():get({
			url = "http://sluice-checker/check/" .. namespace .. "/" .. app .. "?limits=header",
			dst = listener,
			headers = check_headers(txn),
			timeout = limit,
		})
	end)
	if not ok or not from_checker(res) then
		deny(txn, unavailable)
		return
	end
	if res.status ~= 200 then
		deny(txn, res)
		return
	end
	for variable, name in pairs(kept) do
		local values = res.headers[name]
		if values ~= nil then
			txn:set_var(variable, values[0])
		end
	end
end

core.register_action("sluice_gate", { "http-req" }, gate, 2)

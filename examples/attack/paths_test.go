package attack_test

import (
	"slices"
	"strings"
)

// spellings are other ways to write the path /api/upload, or /health with the words exchanged. Some routers take some
// of them for the same page. None may be a way around its limit.
var spellings = []string{
	"//api/upload", "///api/upload", "/api//upload", "/api/upload/", "/api/upload//", "/./api/upload",
	"/api/./upload",
	"/api/upload/.", "/api/x/../upload", "/api/upload/..", "/api/upload/../upload", "/api/..%2fapi/upload",
	"/api%2fupload", "/api%2Fupload", "/%61pi/upload", "/api/%75pload", "/api/uploa%64", "/api/%2e/upload",
	"/api/x/%2e%2e/upload", "/%2e%2e/api/upload", "/api%252fupload", "/api/%2575pload", "/api/upload%00",
	"/api/upload%0a",
	"/api/upload%0d%0aX-Injected:%20yes", "/api/upload%20", "/api/upload%09", "/api/upload%3f", "/api/upload%3fa=b",
	"/api/upload%23", "/api/upload#", "/api/upload#x", "/api/upload;", "/api/upload;v=1", "/api;v=1/upload",
	"/api/upload%3bv=1", "/api/upload:80", "/API/UPLOAD", "/Api/upload", "/api/Upload", "/api/upload.",
	"/api/upload..",
	"/api/upload.json", "/api/upload%2ejson", "/api/upload*", "/api/*", "/api/:id", "/api/{id}", `/api\upload`,
	`/api/x\..\upload`, "/api/upload~", "/api/upload\x80", "/api/uplo\xc3\xa1d", "/api/upl%c3%b6ad",
	"/%c0%afapi/upload",
	"/api/%ef%bd%95pload", "/api/upload%e2%80%8b", "//elsewhere.example/api/upload", "/../api/upload",
}

// notEvenPaths are targets that a server refuses before a router sees them.
var notEvenPaths = []string{
	"api/upload", "/api/upload%", "/api/upload%zz", "/api/upload%4", "/api/%u0075pload", "http://%zz/api/upload",
	"?", "#",
	"http://[::1/api/upload", "/api/\x01upload", "/api/upload\x7f",
}

// lines returns a first line for each of the methods and targets, with path for /api/upload.
func lines(methods []string, path string, targets ...string) []string {
	var lines []string
	for _, method := range methods {
		for _, target := range targets {
			lines = append(lines, method+" "+strings.ReplaceAll(target, "/api/upload", path)+" HTTP/1.1")
		}
	}
	return lines
}

// health returns those spellings that have /api/upload in one piece, for a page that is never limited.
func health() []string {
	var targets []string
	for _, s := range spellings {
		if strings.Contains(s, "/api/upload") {
			targets = append(targets, s)
		}
	}
	return append(targets, "/api/../api/upload", "/api/..%2f/api/upload", "/api/data/../../api/upload")
}

var get, post, methods = []string{"GET"}, []string{"POST"}, []string{
	"POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "M-SEARCH", "BREW", "get", "Get", "head",
	"GETS", "GE", "PRI",
}

var paths = []attack{
	{name: "only GET and HEAD are excluded", shots: slices.Concat(
		each("200", "GET /health", "HEAD /health", "GET /ready", "HEAD /ready", "GET /health?x", "GET /health?",
			"GET /ready?a=/..", "GET /health?/api/upload", "GET http://elsewhere.example/health",
			"HEAD http://elsewhere.example/ready?x"),
		each(notServed, lines(methods, "", "/health", "http://elsewhere.example/ready")...),
		with("X-HTTP-Method-Override: GET\r\nX-Method-Override: GET\r\nX-HTTP-Method: GET\r\n",
			each(notServed, lines(methods, "", "/health?_method=GET")...)...),
		each("400", "GET\t/health", "GET  /health", "GET /health HTTP/1.1 x", "G@T /health", "GET\x00 /health",
			" GET /health"),
	)},
	{name: "spellings of excluded paths", shots: slices.Concat(
		each(routed, lines(get, "/health", health()...)...),
		each(notServed, lines(post, "/ready", health()...)...),
		each(routed, "GET /HEALTH", "GET /health.", "GET /healthz", "GET /%68ealth", "GET /h%65alth", "GET /healt",
			"GET /health/ready", "GET http://elsewhere.example//health", "GET http://elsewhere.example/%68ealth"),
		each("400", lines(get, "/health", notEvenPaths...)...),
	)},
	{name: "spellings of a spent route", shots: slices.Concat(
		with(alice, shot{send: "POST /api/upload", times: 7, want: "5x200 2x429"}),
		with(alice, each(notServed, lines(post, "/api/upload", spellings...)...)...),
		with(alice, each("400", lines(post, "/api/upload", notEvenPaths...)...)...),
		with(alice, each("429", "POST /api/upload?", "POST /api/upload?x=1", "POST /api/upload?/health",
			"POST http://other.example/api/upload",
			"POST HTTP://other.example/api/upload", "POST http://127.0.0.1:1/api/upload?x")...),
		with(alice, each(notServed, "GET /api/upload", "HEAD /api/upload", "PUT /api/upload", "post /api/upload")...),
		[]shot{{send: "POST /api/upload", header: bob, want: "200"}},
	)},
	{name: "headers that rewrite the request", shots: slices.Concat(
		with(alice, shot{send: "POST /api/upload", times: 6, want: "5x200 429"}),
		rewriting("429",
			"X-Original-URL: /health\r\nX-Rewrite-URL: /health\r\nX-Forwarded-Prefix: /x\r\nX-Forwarded-Path: /health",
			"X-HTTP-Method-Override: PUT\r\nX-Method-Override: OPTIONS", "Host: health",
			"X-Forwarded-Host: health\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 1",
			"Upgrade: websocket\r\nConnection: Upgrade", "Connection: X-Forwarded-For, close",
			"Origin: https://evil.example", "Cache-Control: no-cache\r\nIf-None-Match: *\r\nRange: bytes=0-0"),
		rewriting("400", "Host: a\r\nHost: b"),
	)},
	{name: "targets of other forms", shots: slices.Concat(
		each(notServed, "GET *", "POST *", "HEAD *", "CONNECT example.com:443", "CONNECT 127.0.0.1:80",
			"CONNECT [::1]:80"),
		each("200", "OPTIONS *"),
		each("400", "CONNECT", "GET", "GET /health HTTP/9.9x", "GET /health FTP/1.1"),
		each(notServed, "GET /", "OPTIONS /", "POST /nowhere", "GET /"+strings.Repeat("a/", 5000),
			"GET /login", "HEAD /login", "PUT /login", "CONNECT /api/data", "CONNECT /health"),
	)},
}

// rewriting returns requests for a page that is spent, with more header lines.
func rewriting(want string, headers ...string) []shot {
	shots := make([]shot, len(headers))
	for i, h := range headers {
		shots[i] = shot{send: "POST /api/upload", header: alice + h + "\r\n", want: want}
	}
	return shots
}

package attack_test

import (
	"slices"
	"strings"
)

// spellings are other ways to write the path /api/upload, or /health with the words exchanged. Every router must read
// all of them as another page.
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

// exchange returns lines of a method and each of the targets, with other words for /api/upload.
func exchange(method, path string, targets ...string) []string {
	lines := make([]string, len(targets))
	for i, target := range targets {
		target = strings.ReplaceAll(target, "/api/upload", path)
		lines[i] = method + " " + target + " HTTP/1.1"
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

var methods = []string{
	"POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "MKCOL", "M-SEARCH", "BREW", "get", "Get", "head",
	"GETS", "GE",
	"PRI", "!#$%&'*+-.^_`|~",
}

// onPath returns a line for each of the methods.
func onPath(target string, methods ...string) []string {
	lines := make([]string, len(methods))
	for i, method := range methods {
		lines[i] = method + " " + target
	}
	return lines
}

var paths = []attack{
	{name: "only GET and HEAD are excluded", shots: slices.Concat(
		each("200", "GET /health", "HEAD /health", "GET /ready", "HEAD /ready", "GET /health?x", "GET /health?",
			"GET /ready?a=/..",
			"GET /health?/api/upload", "GET http://elsewhere.example/health",
			"HEAD http://elsewhere.example/ready?x"),
		each("204", "OPTIONS /health", "OPTIONS /ready"),
		each("405", onPath("/health", methods...)...),
		each("405", onPath("/ready", methods...)...),
		each("405", onPath("http://elsewhere.example/health", methods...)...),
		with("X-HTTP-Method-Override: GET\r\nX-Method-Override: GET\r\nX-HTTP-Method: GET\r\n",
			each("405", onPath("/health?_method=GET", methods...)...)...),
		each("400", "GET\t/health", "GET  /health", "GET /health HTTP/1.1 x", "G@T /health", "GET\x00 /health",
			" GET /health"),
	)},
	{name: "spellings of excluded paths", shots: slices.Concat(
		each("404", exchange("GET", "/health", health()...)...),
		each("404", exchange("POST", "/ready", health()...)...),
		each("404", "GET /HEALTH", "GET /health.", "GET /healthz", "GET /%68ealth", "GET /h%65alth", "GET /healt",
			"GET /health/ready"),
		each("404", "GET http://elsewhere.example//health", "GET http://elsewhere.example/%68ealth",
			"GET http://elsewhere.example"),
		each("400", exchange("GET", "/health", notEvenPaths...)...),
	)},
	{name: "spellings of a spent route", onRedis: true, shots: slices.Concat(
		with(alice, shot{send: "POST /api/upload", times: 7, want: "5x200 2x429"}),
		with(alice, each("404", exchange("POST", "/api/upload", spellings...)...)...),
		with(alice, each("400", exchange("POST", "/api/upload", notEvenPaths...)...)...),
		with(alice, each("429", "POST /api/upload?", "POST /api/upload?x=1", "POST /api/upload?/health",
			"POST http://other.example/api/upload",
			"POST HTTP://other.example/api/upload", "POST http://127.0.0.1:1/api/upload?x")...),
		with(alice, each("405", onPath("/api/upload", "GET", "HEAD", "PUT", "post", "Post", "POSTS")...)...),
		[]shot{{send: "POST /api/upload", header: bob, want: "200"}},
	)},
	{name: "headers that rewrite the request", shots: slices.Concat(
		with(alice, shot{send: "POST /api/upload", times: 6, want: "5x200 429"}),
		with(alice+"X-Original-URL: /health\r\nX-Rewrite-URL: /health\r\n"+
			"X-Forwarded-Prefix: /x\r\nX-Forwarded-Path: /health\r\n",
			shot{send: "POST /api/upload", want: "429"}),
		with(alice+"X-HTTP-Method-Override: PUT\r\nX-Method-Override: OPTIONS\r\n",
			shot{send: "POST /api/upload", want: "429"}),
		with(alice+"Host: health\r\n", shot{send: "POST /api/upload", want: "429"}),
		with(alice+"X-Forwarded-Host: health\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 1\r\n",
			shot{send: "POST /api/upload", want: "429"}),
		with(alice+"Upgrade: websocket\r\nConnection: Upgrade\r\n", shot{send: "POST /api/upload", want: "429"}),
		with(alice+"Connection: X-Forwarded-For, close\r\n", shot{send: "POST /api/upload", want: "429"}),
		with(alice+"Origin: https://evil.example\r\n", shot{send: "POST /api/upload", want: "429"}),
		with(alice+"Cache-Control: no-cache\r\nIf-None-Match: *\r\nRange: bytes=0-0\r\n",
			shot{send: "POST /api/upload", want: "429"}),
		with(alice+"Host: a\r\nHost: b\r\n", shot{send: "POST /api/upload", want: "400"}),
	)},
	{name: "targets of other forms", shots: slices.Concat(
		each("404", "GET *", "POST *", "HEAD *", "CONNECT example.com:443", "CONNECT 127.0.0.1:80",
			"CONNECT [::1]:80"),
		each("200", "OPTIONS *"),
		each("400", "CONNECT", "GET", "GET /health HTTP/9.9x", "GET /health FTP/1.1"),
		each("404", "GET /", "OPTIONS /", "POST /nowhere", "GET /"+strings.Repeat("a/", 5000),
			"GET /"+strings.Repeat("a", 30_000)),
		each("405", "GET /login", "HEAD /login", "PUT /login", "CONNECT /api/data", "CONNECT /health"),
	)},
}

package adaptertest

import (
	"net/http"
	"net/http/httptest"
)

// route returns a route whose handler returns no error.
func route(method, pattern string, steps []Step, h http.HandlerFunc) Route {
	return Route{Method: method, Pattern: pattern, Steps: steps, Handler: h}
}

// rootTree returns a server with steps at the root and one route.
func rootTree(use []Step, method, pattern string, h http.HandlerFunc) Tree {
	return Tree{Use: use, Routes: []Route{route(method, pattern, nil, h)}}
}

// page is a handler with the body "page": a test sees that it was reached.
func page(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("page")) }

// serve passes a request to h and returns the response.
func serve(h http.Handler, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w
}

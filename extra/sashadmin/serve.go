package sashadmin

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// maxQuery is the length in bytes of the longest query that is read. A key of 8 KiB, of
// which each byte is escaped, fits.
const maxQuery = 32 << 10

// answer is what the handler answers: a page, or its data as JSON.
type answer struct {
	status int
	page   string // of pages
	data   any
	next   string // where a browser goes instead, if it is not empty
}

// route answers for a path.
type route struct {
	method string
	answer func(*Handler, *http.Request, url.Values) (answer, error)
}

var routes = map[string]route{
	"rules":    {http.MethodGet, (*Handler).rules},
	"client":   {http.MethodGet, (*Handler).client},
	"api-key":  {http.MethodPost, (*Handler).apiKey},
	"heaviest": {http.MethodGet, (*Handler).heaviest},
	"stores":   {http.MethodGet, (*Handler).states},
	"reset":    {http.MethodPost, (*Handler).reset},
}

// statusError is an error with the status to answer.
type statusError struct {
	status int
	error
}

// ServeHTTP answers with a page or with JSON; see the documentation of the package.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" && needsSlash(w, r) {
		return
	}
	name, asJSON := strings.CutSuffix(name, ".json")
	if name == "" && !asJSON {
		name = "rules"
	}
	a, err := h.find(w, r, name)
	if err != nil {
		status := http.StatusInternalServerError
		var known *statusError
		if errors.As(err, &known) {
			status = known.status
		}
		a = answer{status: status, page: "error", data: failure{err.Error()}}
	}
	if asJSON {
		writeJSON(w, a)
		return
	}
	h.writePage(w, r, a)
}

// failure is the answer to a request that is not as it should be.
type failure struct {
	Error string `json:"error"`
}

// needsSlash sends a browser to the path with a slash at the end, and reports whether it
// did. Below any other path the links would lead elsewhere.
func needsSlash(w http.ResponseWriter, r *http.Request) bool {
	asked, _, _ := strings.Cut(r.RequestURI, "?")
	if asked == "" || strings.HasSuffix(asked, "/") {
		return false
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", "./"+path.Base(asked)+"/")
	w.WriteHeader(http.StatusPermanentRedirect)
	return true
}

// find returns the answer for a path.
func (h *Handler) find(w http.ResponseWriter, r *http.Request, name string) (answer, error) {
	route, ok := routes[name]
	if !ok || name == "heaviest" && h.config.Heaviest == nil || name == "stores" && len(h.stores) == 0 {
		return answer{}, &statusError{http.StatusNotFound, errors.New("there is no such page")}
	}
	if r.Method != route.method && (r.Method != http.MethodHead || route.method != http.MethodGet) {
		allow := route.method
		if allow == http.MethodGet {
			allow = "GET, HEAD"
		}
		w.Header().Set("Allow", allow)
		err := errors.New("the method is not allowed: use " + allow)
		return answer{}, &statusError{http.StatusMethodNotAllowed, err}
	}
	if route.method == http.MethodPost {
		if err := h.crossSites.Check(r); err != nil {
			return answer{}, &statusError{http.StatusForbidden, err}
		}
	}
	if len(r.URL.RawQuery) > maxQuery {
		return answer{}, &statusError{http.StatusRequestURITooLong, errors.New("the query is too long")}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return answer{}, &statusError{http.StatusBadRequest, errors.New("the query cannot be read")}
	}
	return route.answer(h, r, query)
}

// setFields sets the fields that all answers have.
func setFields(header http.Header, contentType string) {
	header.Set("Content-Type", contentType)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Content-Security-Policy", contentSecurityPolicy)
	// A browser that sends no referrer sends no Origin either, which a reset needs.
	header.Set("Referrer-Policy", "same-origin")
}

// writeJSON answers with the data.
func writeJSON(w http.ResponseWriter, a answer) {
	text, err := json.MarshalIndent(a.data, "", "  ")
	if err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	setFields(w.Header(), "application/json")
	w.WriteHeader(a.status)
	_, _ = w.Write(append(text, '\n')) // the client may have left
}

// writePage answers with a page, or sends the browser to the next one.
func (h *Handler) writePage(w http.ResponseWriter, r *http.Request, a answer) {
	if a.next != "" {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Location", a.next)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	var body bytes.Buffer
	err := pages.ExecuteTemplate(&body, a.page, page{
		Heaviest: h.config.Heaviest != nil, Stores: len(h.stores) > 0, Data: a.data,
	})
	if err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	setFields(w.Header(), "text/html; charset=utf-8")
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body.Bytes()) // the client may have left
	}
}

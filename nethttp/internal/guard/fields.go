package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/internal/token"
)

// fields write the limit fields for the decisions by some limits.
type fields struct {
	classic *headers.ClassicWriter             // writes the first format that is Classic or a variant; may be nil
	writers []func(http.Header, core.Decision) // write the other formats
}

// prepareFields returns the fields of some formats for decisions by limits.
func prepareFields(formats []headers.Format, limits []core.Limit) (*fields, error) {
	f := new(fields)
	for _, format := range formats {
		if classic, ok := format.(headers.ClassicFormat); ok && f.classic == nil {
			f.classic = classic.Writer(limits)
			continue
		}
		write, err := format.Prepare(limits)
		if err != nil {
			return nil, err
		}
		if write == nil {
			return nil, fmt.Errorf("sash: Prepare of the format %T returned neither a function nor an error", format)
		}
		f.writers = append(f.writers, write)
	}
	return f, nil
}

// otherFields are fields that no format may write, because the server or a refusal does, or
// because they say how the body is sent.
var otherFields = []string{
	"Cache-Control", "Connection", "Content-Length", "Content-Type", "Retry-After", "Trailer", "Transfer-Encoding",
}

// fieldNames returns the names of the fields that the formats write. An error says that they write a field twice, one
// that is not theirs, or one that no response can have.
func fieldNames(formats []headers.Format) (names []string, err error) {
	for _, f := range formats {
		for _, name := range f.Names() {
			switch {
			case slices.Contains(names, name):
				return nil, errors.New("sash: the formats of WithHeaders write the field " + name +
					" twice: give one of them, or other names with headers.Classic.WithNames")
			case slices.Contains(otherFields, name):
				return nil, errors.New("sash: a format of WithHeaders writes the field " + name +
					", which is not about a limit: give it another name, such as X-RateLimit-Reset")
			case !token.Is(name) || http.CanonicalHeaderKey(name) != name:
				return nil, fmt.Errorf("sash: the format %T names the field %.64q, which is not the name of a field "+
					"as http.CanonicalHeaderKey writes it, such as X-Ratelimit-Limit", f, name)
			}
			names = append(names, name)
		}
	}
	return names, nil
}

// write sets the fields of d, if its limit is known. So the fields of a guard inside another
// replace the outer ones. memory holds the values of a Classic format; if it is nil, they
// get memory of their own.
func (f *fields) write(w http.ResponseWriter, d *core.Decision, memory *headers.ClassicMemory) {
	if d.Limit.Requests == 0 {
		return
	}
	h := w.Header()
	if f.classic != nil {
		if memory == nil {
			memory = new(headers.ClassicMemory)
		}
		f.classic.Write(h, d, memory)
	}
	for _, write := range f.writers {
		write(h, *d)
	}
}

// DropLimits removes RateLimit, and all fields that begin with X-RateLimit- or RateLimit-.
func DropLimits(h http.Header) {
	for name := range h {
		if name == "Ratelimit" || strings.HasPrefix(name, "Ratelimit-") || strings.HasPrefix(name, "X-Ratelimit-") {
			delete(h, name)
		}
	}
}

// preparedFields keeps the fields of some formats for the limiters and the limits that
// requests are decided by. It is safe for concurrent use.
type preparedFields struct {
	formats []headers.Format
	names   []string      // of the formats
	limiter *core.Limiter // of the guard
	own     *fields       // for the guard's limiter

	mu    sync.RWMutex
	known map[plannedLimits]*fields // for other limiters and limits
}

// newPreparedFields prepares the fields for all limiters of a guard.
func newPreparedFields(c *Config, limiter *core.Limiter) (*preparedFields, error) {
	p := &preparedFields{formats: c.Formats, limiter: limiter, known: map[plannedLimits]*fields{}}
	var err error
	p.own, err = prepareFields(c.Formats, limiter.Limits())
	for i := 0; err == nil && i < len(c.All); i++ {
		_, err = p.prepare(c.All[i].Limiter, nil)
	}
	if err == nil {
		p.names, err = fieldNames(c.Formats)
	}
	return p, err
}

// drop removes what a guard outside has told of its limit from the response, before a refusal tells of another limit,
// or of none. An http.TimeoutHandler copies fields outwards, and removes one that has no value.
func (p *preparedFields) drop(w http.ResponseWriter) {
	h := w.Header()
	DropLimits(h)
	copied := mayTimeOut(w)
	for _, name := range p.names {
		if delete(h, name); copied {
			h[name] = nil
		}
	}
}

// of returns the fields for the decisions of l by limits, which have not been checked: a
// decision by limits that are wrong has none. nil stands for the limits of l.
func (p *preparedFields) of(l *core.Limiter, limits []core.Limit) *fields {
	if l == p.limiter && limits == nil || limits != nil && len(p.own.writers) == 0 {
		return p.own // a Classic format needs to know no limits beforehand
	}
	f, err := p.prepare(l, limits)
	if err != nil { // of a format of the user's own
		return new(fields)
	}
	return f
}

// plannedLimits are the limits of a limiter, or the same limits with other numbers.
type plannedLimits struct {
	limiter *core.Limiter
	numbers string // as varints; empty for the limiter's own
}

// maxPrepared is the most limits for which fields are kept. There are as many as
// different plans, of which few services have more.
const maxPrepared = 1000

// prepare returns the fields for limits, or for the limits of l if limits is nil.
func (p *preparedFields) prepare(l *core.Limiter, limits []core.Limit) (*fields, error) {
	var buf [64]byte
	numbers := buf[:0]
	for _, limit := range limits {
		numbers = binary.AppendVarint(numbers, limit.Requests)
	}
	p.mu.RLock()
	f := p.known[plannedLimits{l, string(numbers)}]
	p.mu.RUnlock()
	if f != nil {
		return f, nil
	}
	own := l.Limits()
	for i := range min(len(own), len(limits)) {
		own[i].Requests = limits[i].Requests
	}
	f, err := prepareFields(p.formats, own)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= maxPrepared {
		clear(p.known)
	}
	p.known[plannedLimits{l, string(numbers)}] = f
	return f, nil
}

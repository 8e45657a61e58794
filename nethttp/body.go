package nethttp

import (
	"fmt"
	"sync"
)

// body is the body of a refusal. TestProblemBodies shows all of them.
type body struct {
	text        []byte
	contentType string
}

// bodies holds bodies to use again, since refusing is most of what a server does
// under a flood. A ResponseWriter must not keep what it is given to write.
var bodies = sync.Pool{New: func() any { return new(body) }}

// write makes b the body in the form that the client asks for. wait is the value
// of Retry-After and policy the name of the limit that refused; either may be
// empty. Nothing in the body needs an escape: the texts are constants, and core.New
// has checked the names of limits.
func (b *body) write(form mediaType, why *reason, wait, policy string) {
	b.text = b.text[:0]
	switch form {
	case textHTML:
		b.contentType = "text/html; charset=utf-8"
		b.writeHTML(why, wait)
	case textPlain:
		b.contentType = "text/plain; charset=utf-8"
		b.writePlain(why, wait)
	default:
		b.contentType = "application/problem+json"
		b.writeJSON(why, wait, policy)
	}
}

// writeJSON writes a problem of RFC 9457 with the members that this package adds.
func (b *body) writeJSON(why *reason, wait, policy string) {
	again, seconds := advice(wait)
	b.add(why.json.beforeAdvice, again, wait, seconds, why.json.afterAdvice)
	if wait != "" {
		b.add(`,"retry_after":`, wait)
	}
	if policy != "" {
		b.add(`,"violated-policies":["`, policy, `"]`)
	}
	b.add(`}`)
}

// problem is the part that all JSON bodies of a reason have in common: what stands
// before and after the advice at the end of the detail.
type problem struct{ beforeAdvice, afterAdvice string }

func newProblem(status int, typ, title, detail, err string) problem {
	return problem{
		beforeAdvice: fmt.Sprintf(`{"type":"%s","title":"%s","status":%d,"detail":"%s`, typ, title, status, detail),
		afterAdvice:  fmt.Sprintf(`","error":"%s"`, err),
	}
}

// writeHTML writes a page of one heading and one sentence or two.
func (b *body) writeHTML(why *reason, wait string) {
	again, seconds := advice(wait)
	b.add("<!DOCTYPE html>\n", `<html lang="en"><head><title>`, why.title, "</title></head>",
		"<body><h1>", why.title, "</h1><p>", why.detail, again, wait, seconds, "</p></body></html>\n")
}

// writePlain writes one line.
func (b *body) writePlain(why *reason, wait string) {
	again, seconds := advice(wait)
	b.add(why.detail, again, wait, seconds, "\n")
}

// add appends the parts to the text.
func (b *body) add(parts ...string) {
	text := b.text
	for _, p := range parts {
		text = append(text, p...)
	}
	b.text = text
}

// advice returns what stands before and after wait in the sentence that says when
// to come back. Without a wait there is no sentence.
func advice(wait string) (before, after string) {
	switch wait {
	case "":
		return "", ""
	case "1":
		return " Try again in ", " second."
	}
	return " Try again in ", " seconds."
}

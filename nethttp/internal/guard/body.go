package guard

import "sync"

// appendBody appends the body of a refusal to b. wait is the value of Retry-After and policy the name of the reached
// limit; either may be empty. No part needs an escape: the texts are constants, and core.New checks names of limits.
func (p *reason) appendBody(b []byte, wait, policy string) []byte {
	b = append(b, p.beforeAdvice...)
	if wait != "" {
		b = append(append(append(b, " Try again in "...), wait...), " second"...)
		if wait != "1" {
			b = append(b, 's')
		}
		b = append(b, '.')
	}
	b = append(b, p.afterAdvice...)
	if wait != "" {
		b = append(append(b, `,"retry_after":`...), wait...)
	}
	if policy != "" {
		b = append(append(append(b, `,"violated-policies":["`...), policy...), `"]`...)
	}
	return append(b, '}')
}

// bodyPool holds buffers of bodies, since a server under a flood writes refusals most of all. A ResponseWriter must not
// keep the bytes that it writes.
var bodyPool = sync.Pool{New: func() any { return new([]byte) }}

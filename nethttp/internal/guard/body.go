package guard

import "sync"

// appendBody appends the body to b. wait is the value of Retry-After and policy the name of the
// limit that refused; either may be empty. Nothing in the body needs an escape: the texts are
// constants, and core.New has checked the names of limits.
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

// bodies holds bodies to use again, since refusing is most of what a server does
// under a flood. A ResponseWriter must not keep what it is given to write.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

package guard

import (
	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/keyfuncs"
)

// ByIP returns the limiter and the key function of a LimitByIP. It panics on limits that core.New would refuse, and
// without limits.
func ByIP(limits []core.Limit) (*core.Limiter, keyfuncs.Func) {
	rules := core.Must(core.New(core.Config{Name: "LimitByIP", Store: memstore.New()}))
	return core.Must(rules.WithLimits(limits...)), keyfuncs.RemoteIP
}

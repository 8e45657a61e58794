package guard

import (
	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/keyfuncs"
)

// ByIP returns the limiter and the key function of LimitByIP. It panics if limits is empty or invalid.
func ByIP(limits []core.Limit) (*core.Limiter, keyfuncs.Func) {
	rules := core.Must(core.New(core.Config{Name: "LimitByIP", Store: memstore.New()}))
	return core.Must(rules.WithLimits(limits...)), keyfuncs.RemoteIP
}

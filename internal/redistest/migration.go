package redistest

import (
	"fmt"
	"testing"
)

// Migration is a slot on its way from one master to another. Until the migration
// is finished, the old owner answers for the keys that it still has, and answers
// ASK for all other keys, which sends the client to the new owner. A command
// with keys at both owners gets TRYAGAIN.
type Migration struct {
	c        *Cluster
	slot     int
	from, to *Server
}

// BeginMigration opens a slot for migration and moves no key yet.
func (c *Cluster) BeginMigration(tb testing.TB, slot int, from, to *Server) *Migration {
	tb.Helper()
	m := &Migration{c, slot, from, to}
	to.retryCommand(tb, fmt.Sprintf("CLUSTER SETSLOT %d IMPORTING %s", slot, from.id))
	from.retryCommand(tb, fmt.Sprintf("CLUSTER SETSLOT %d MIGRATING %s", slot, to.id))
	return m
}

// MoveKeys moves keys of the slot. Keys that do not exist are ignored.
func (m *Migration) MoveKeys(tb testing.TB, keys ...string) {
	tb.Helper()
	const timeout = 900 // ms, less than the client's
	args := []any{"MIGRATE", host, m.to.port, "", 0, timeout, "KEYS"}
	for _, key := range keys {
		args = append(args, key)
	}
	if err := m.from.ask(args...).Err(); err != nil {
		tb.Fatalf("redistest: moving %q of slot %d from %s: %v", keys, m.slot, m.from.Addr(), err)
	}
}

// Finish moves the keys that are left, gives the slot to its new owner, and
// returns once all nodes know the new owner.
func (m *Migration) Finish(tb testing.TB) {
	tb.Helper()
	keys, err := m.from.ask("CLUSTER", "GETKEYSINSLOT", m.slot, 1_000_000).StringSlice()
	if err != nil {
		tb.Fatalf("redistest: keys of slot %d: %v", m.slot, err)
	}
	if len(keys) > 0 {
		m.MoveKeys(tb, keys...)
	}
	// The new owner learns it first: otherwise the old owner would send clients to
	// a node that sends them back.
	owned := fmt.Sprintf("CLUSTER SETSLOT %d NODE %s", m.slot, m.to.id)
	m.to.retryCommand(tb, owned)
	m.from.retryCommand(tb, owned)
	WaitFor(tb, fmt.Sprintf("all nodes to know the new owner of slot %d", m.slot), func() error {
		views, err := m.c.views()
		if err != nil {
			return err
		}
		for _, v := range views {
			if v.owner(m.slot) != m.to {
				return fmt.Errorf("%s does not know the new owner", v.server.Addr())
			}
		}
		return nil
	})
}

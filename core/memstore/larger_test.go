//go:build !race && !short

package memstore_test

import "testing"

// TestNobodyInALargerStore is TestNobodyIsAdmittedAboveItsLimit in a store that takes the race detector too long.
func TestNobodyInALargerStore(t *testing.T) { floodStores(t, 256<<10) }

// TestConformanceInALargerStore is TestConformanceInAFullStore in such a store.
func TestConformanceInALargerStore(t *testing.T) { conformFull(t, 1<<20) }

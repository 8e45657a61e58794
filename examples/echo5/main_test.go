package main

import (
	"testing"

	"github.com/sashlimit/sash/examples/internal/apptest"
)

func TestReplay(t *testing.T) { apptest.Replay(t, routes) }

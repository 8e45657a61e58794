package redisstore

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

//go:embed decide.lua
var decideSource string

var decideScript = newScript(decideSource)

// script is a Lua script and the name that Redis knows it by.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(sum[:])}
}

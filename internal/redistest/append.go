package redistest

import (
	"fmt"
	"path/filepath"
	"testing"
)

// Append has the server append what changes its data to a file from now on, each time before it answers, and returns
// the file's name. The file stays when the server is killed, until the test's cleanup.
func (s *Server) Append(tb testing.TB) string {
	tb.Helper()
	admin := s.admin()
	defer admin.Close()
	if err := admin.ConfigSet(ctx, "appendonly", "yes").Err(); err != nil {
		tb.Fatal(err)
	}
	WaitFor(tb, s.Addr()+" to append", func() error {
		info, err := admin.Info(ctx, "persistence").Result()
		if err == nil && (field(info, "aof_enabled") != "1" || field(info, "aof_rewrite_in_progress") != "0" ||
			field(info, "aof_rewrite_scheduled") != "0") {
			err = fmt.Errorf("it has begun: %s", info)
		}
		return err
	})
	files, err := filepath.Glob(filepath.Join(s.dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		tb.Fatalf("redistest: %s appends to %q: %v", s.Addr(), files, err)
	}
	return files[0]
}

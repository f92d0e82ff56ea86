package criu

import (
	"context"
	"os"
	"os/exec"
	"sync"
)

// feature caches whether CRIU has a feature on this host, by "criu check --feature".
type feature struct {
	name string

	mu    sync.Mutex // guards what follows
	has   bool
	asked os.FileInfo // the CRIU that was asked
}

// in reports whether a program has the feature. It is asked again only when it is replaced.
func (f *feature) in(ctx context.Context, program string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := os.Stat(program)
	if err != nil {
		return false
	}
	if !unchanged(f.asked, file) {
		ctx, cancel := context.WithTimeout(ctx, checkTime)
		defer cancel()
		f.has = exec.CommandContext(ctx, program, "check", "--feature", f.name).Run() == nil
		if ctx.Err() == nil {
			f.asked = file
		}
	}
	return f.has
}

// possible reports whether the program has the feature, as far as is known. It does not wait for an
// answer.
func (f *feature) possible() bool {
	if !f.mu.TryLock() {
		return true
	}
	defer f.mu.Unlock()
	return f.has
}

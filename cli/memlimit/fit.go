// Package memlimit keeps the memory of a long computation near what it uses.
package memlimit

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Go lets memory grow to twice what is in use before it looks for garbage. Where little of it is
// garbage, that wastes the other half; here a fifth is allowed. Looking more often takes time only
// when memory is near the limit.
const (
	leastBytes = 32 << 20
	ownBytes   = 8 << 20 // of Go itself, beside what is in use
)

// current is the limit that is set; 0 for none.
var current struct {
	sync.Mutex
	bytes int64
}

// Fit raises the limit, if necessary, to what the memory in use needs. It has no effect if the
// environment sets GOGC or GOMEMLIMIT.
func Fit() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	inUse := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(inUse)
	limit := max(leastBytes, int64(inUse[0].Value.Uint64())*5/4+ownBytes)
	current.Lock()
	defer current.Unlock()
	if limit > current.bytes {
		current.bytes = limit
		debug.SetMemoryLimit(limit)
	}
}

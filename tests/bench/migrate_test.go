package bench

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// moved is what --migrate --json prints, as far as it is compared.
type moved struct {
	StoodStill uint64 `json:"stood_still_microseconds"`
	Total      uint64 `json:"total_microseconds"`
	Copied     uint64 `json:"copied_bytes"`
	Rest       uint64 `json:"rest_bytes"`
	// Of moves to another machine.
	Sent    uint64 `json:"sent_bytes"`
	Sending uint64 `json:"sending_microseconds"`
}

// longestGap returns the longest time, in seconds, in which the program made no step. Its own clock
// stops while it is saved and restored.
func (h *holder) longestGap(during func()) (longest float64) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		made, at := h.get(steps), time.Now()
		for {
			now := h.get(steps)
			longest = max(longest, time.Since(at).Seconds())
			if now != made {
				made, at = now, time.Now()
			}
			select {
			case <-over:
				return
			case <-time.After(200 * time.Microsecond):
			}
		}
	}()
	during()
	h.waitStep()
	close(over)
	<-done
	return longest
}

// measureMigrate moves a program that rewrites 1 % of its memory a second between two GPUs, and
// compares how long it makes no step with the time of a dump and a restore, and with the longest
// time without a step during a pre-dump.
func measureMigrate(t *testing.T, b *bench) []row {
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	daemon := harness.Start(t, fmt.Sprintf("--gpus=soft:2,memory=%dMiB", 2*b.bytes/mebibyte))
	program := b.startHolder(t, daemon, b.bytes)
	program.set(rewriteBytesPerSecond, b.bytes/100)
	var still, told, whole, pauses, bytes []float64
	var last moved
	for i := range b.rounds {
		dir := imageDir(t, b.memory)
		program.waitStep()
		pauses = append(pauses, program.longestGap(func() { program.checkpoint(dir, checkpointOptions{}) }))
		remove(t, dir)

		dir = imageDir(t, b.memory)
		program.Image = dir
		begun := time.Now()
		program.Dump()
		program.RestoreDetached("--eager")
		whole = append(whole, time.Since(begun).Seconds())
		remove(t, dir)

		program.waitStep()
		var said string
		still = append(still, program.longestGap(func() {
			said = program.Migrate(fmt.Sprint(1-i%2), "--json", "--dir", b.memory)
		}))
		if err := json.Unmarshal([]byte(said), &last); err != nil {
			t.Fatal(err)
		}
		told = append(told, seconds(last.StoodStill))
		bytes = append(bytes, float64(last.Copied+last.Rest)/float64(b.bytes))
	}
	program.finish()
	return []row{
		{
			name: "moved to another GPU: stands still / dump and restore", value: median(still) / median(whole), most: 1.0 / 20,
			note: fmt.Sprintf("%s of %.2f s; --migrate says %s", milliseconds(median(still)),
				median(whole), milliseconds(median(told))),
		},
		{
			name: "moved to another GPU: stands still / pre-dump's pause", value: median(still) / median(pauses), most: 3,
			note: fmt.Sprintf("of %s; in all %.2f s", milliseconds(median(pauses)), seconds(last.Total)),
		},
		{name: "moved to another GPU: bytes / its memory", value: median(bytes), most: 1.15},
	}
}

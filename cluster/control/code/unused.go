package code

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/internal/ticks"
)

// sweepInterval is how often unused code is looked for.
const sweepInterval = time.Hour

// SweepUnused removes code that no launch in the store has, from time to time, until the context
// ends. Code without a launch stays for the given time: its launch may come yet. Each controller
// does so for its own disk.
func (c *Copies) SweepUnused(ctx context.Context, launches store.Store, stays time.Duration, log *slog.Logger) {
	for now := range ticks.Every(ctx, sweepInterval) {
		removed, err := c.sweep(ctx, launches, now.Add(-stays))
		switch {
		case ctx.Err() != nil:
		case err != nil:
			log.Warn("unused code stays", "error", err, "retry", sweepInterval)
		case removed > 0:
			log.Info("unused code removed", "files", removed)
		}
	}
}

// sweep removes code that no launch has and that was not used since a time.
func (c *Copies) sweep(ctx context.Context, launches store.Store, before time.Time) (removed int, err error) {
	objects, _, err := launches.List(ctx, record.LaunchPrefix)
	if err != nil {
		return 0, err
	}
	needed := map[string]bool{}
	for _, object := range objects {
		launch, err := record.DecodeLaunch(object.Value)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", object.Key, err) // its code is unknown
		}
		needed[launch.Code.Hash] = true
	}
	return c.Sweep(func(hash string) bool { return needed[hash] }, before)
}

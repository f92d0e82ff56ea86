package archive

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/daemon/phosd/statedir"
)

// Archive opens images and makes work directories.
type Archive struct {
	state *statedir.Dir
	quota *quota.Quota
	idle  time.Duration
	log   *slog.Logger
}

// Options are what an Archive needs.
type Options struct {
	// State is the state directory; the caller closes it.
	State *statedir.Dir
	// Quota counts what users hold, at streams and open images.
	Quota *quota.Quota
	// Idle is how long a stream may be idle; 0: any time.
	Idle time.Duration
	Log  *slog.Logger
}

// New returns an Archive.
func New(options Options) *Archive {
	return &Archive{state: options.State, quota: options.Quota, idle: options.Idle, log: options.Log}
}

// Library returns a copy of a library whose original is gone.
func (a *Archive) Library(saved image.SavedFile, content io.Reader) (*os.File, error) {
	text, err := ckpt.ReadLibrary(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", saved.Path, err)
	}
	return a.state.Library(saved.Hash, bytes.NewReader(text))
}

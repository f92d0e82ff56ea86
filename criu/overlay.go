package criu

import (
	"context"
	"os"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/criu/overlay"
	"github.com/phos-gpu/phos/criu/pager"
)

// Overlay implements ckpt.Overlayer. Images that CRIU has written itself, by the kernel's
// soft-dirty bits, stay whole.
func (c *CPU) Overlay(ctx context.Context, parent *os.File, older ckpt.OlderImages) (map[string]image.Entry, error) {
	if _, err := parent.Seek(0, 0); err != nil {
		return nil, err
	}
	names, err := parent.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	needed := map[string]image.Entry{}
	for _, name := range names {
		if name == inventory {
			return nil, nil
		}
	}
	layer := &overlay.Layer{Images: parent, Older: older, Runs: overlay.MaxRuns}
	for _, name := range names {
		pid, is := pager.PagemapOf(name)
		if !is {
			continue
		}
		base, err := layer.Lay(ctx, pid)
		if err != nil {
			return nil, err
		}
		for name, entry := range base {
			needed[ckpt.ParentImages+"/"+name] = entry
		}
	}
	return needed, nil
}

package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/phos-gpu/phos/hijack/wire"
)

// errImage is returned when an image holds no session that can be restored here.
var errImage = errors.New("image cannot be used")

// maxAbout bounds the size of the worker entry of an image.
const maxAbout = 16 << 10

// about is the worker entry of an image: what the handshake said about the program. A restored
// program does not repeat its handshake.
type about struct {
	Wire uint32 `json:"wire"`
	// CookieAddress is 0 if the worker may not read the program's memory.
	CookieAddress uint64 `json:"cookie_address"`
	Cookie        uint64 `json:"cookie"`
	CopyByShim    bool   `json:"copy_by_shim,omitempty"`
	JobName       string `json:"job_name,omitempty"`
	// Visible are the machine's ordinals of the GPUs that the program saw, in its order; nil: all.
	Visible []int `json:"visible,omitempty"`
}

// about returns the worker entry for an image of the active session.
func (w *Worker) about(active *activeSession) about {
	return about{
		Wire: wire.Version, CookieAddress: active.cookie.address, Cookie: active.cookie.value, CopyByShim: active.link.copyByShim,
		JobName: w.currentJob().name, Visible: w.visible,
	}
}

// decodeAbout parses the worker entry of an image. The image is not trusted.
func decodeAbout(data []byte) (about, error) {
	var read about
	if len(data) > maxAbout {
		return about{}, fmt.Errorf("%w: entry %q has %d bytes", errImage, workerEntry, len(data))
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return about{}, fmt.Errorf("%w: entry %q: %w", errImage, workerEntry, err)
	}
	if read.Wire != wire.Version {
		return about{}, fmt.Errorf(
			"%w: the session has wire version %d, this phosd has version %d",
			errImage,
			read.Wire,
			wire.Version,
		)
	}
	if !utf8.ValidString(read.JobName) {
		return about{}, fmt.Errorf("%w: the job name is not valid UTF-8", errImage)
	}
	return read, nil
}

package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/phos-gpu/phos/hijack/wire"
)

// errImage means that an image has no session that could be made again here.
var errImage = errors.New("image cannot be used")

// maxAbout bounds what an image may say about its worker.
const maxAbout = 16 << 10

// about is what a worker writes into an image about itself and its program: what the handshake
// told, which does not come again.
type about struct {
	Wire uint32 `json:"wire"`
	// CookieAddress is 0 where nobody may look into the program.
	CookieAddress uint64 `json:"cookie_address"`
	Cookie        uint64 `json:"cookie"`
	CopyByShim    bool   `json:"copy_by_shim,omitempty"`
	JobName       string `json:"job_name,omitempty"`
}

func (w *Worker) about(j *joined) about {
	return about{
		Wire: wire.Version, CookieAddress: j.cookie.address, Cookie: j.cookie.value, CopyByShim: j.link.copyByShim,
		JobName: w.currentJob().name,
	}
}

// decodeAbout reads what about wrote, or whatever an image has in its place.
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
			"%w: its session is of version %d, this phosd of version %d",
			errImage,
			read.Wire,
			wire.Version,
		)
	}
	if !utf8.ValidString(read.JobName) {
		return about{}, fmt.Errorf("%w: the job's name is no text", errImage)
	}
	return read, nil
}

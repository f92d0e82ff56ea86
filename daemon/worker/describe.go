package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/worker/joblog"
	"github.com/phos-gpu/phos/daemon/worker/session"
	"github.com/phos-gpu/phos/hijack/wire"
)

// describe returns what pos_cli --status shows of the program.
func (w *Worker) describe() *api.Description {
	known := w.currentJob()
	description := &api.Description{JobName: known.name, LogPath: known.logPath, JobFileError: known.errorText()}
	if known.policy != nil {
		description.Policy = policyOf(*known.policy)
	}
	if live := w.session.Load(); live != nil {
		description.Live = true
		progress := w.progress(live)
		description.Progress = progressOf(progress)
		description.Rank, description.WorldSize = uint32(progress.Rank), uint32(progress.WorldSize)
	}
	return description
}

// logger returns a logger that writes to phosd's log and to the job's log_path.
func (j job) logger(phosd *slog.Logger, settings config.Log) *slog.Logger {
	phosd = phosd.With("job", j.name)
	if j.log == nil {
		return slog.New(joblog.NewLimited(phosd.Handler()))
	}
	return slog.New(joblog.NewLimited(slog.NewMultiHandler(phosd.Handler(), settings.Handler(j.log))))
}

// progressTime is how long to wait for the session's progress. A call that loads a large module
// holds the session's lock for longer.
const progressTime = 300 * time.Millisecond

// progress returns the session's progress, or the last known one if the session is too busy to
// answer.
func (w *Worker) progress(live *session.Session) session.Progress {
	answer := make(chan session.Progress, 1)
	go func() { answer <- live.Progress() }()
	select {
	case now := <-answer:
		w.lastProgress.Store(&now)
		return now
	case <-time.After(progressTime):
	}
	if before := w.lastProgress.Load(); before != nil {
		return *before
	}
	return session.Progress{}
}

// progressOf converts a session's progress to the message that phosd gets.
func progressOf(progress session.Progress) *api.Progress {
	told := &api.Progress{
		CallsMade: progress.Made, CallsCompleted: progress.Completed, CallsAwaited: progress.Awaited,
		Kernels: slices.Clone(progress.Kernels), Fault: progress.Fault, PinnedBytes: progress.PinnedBytes,
	}
	slices.Reverse(told.Kernels) // the oldest first
	if oldest := progress.Oldest; oldest != nil {
		told.PendingCall = oldest.Call
		told.PendingStream = uint64(oldest.Stream)
		told.PendingMilliseconds = uint64(oldest.Age.Milliseconds())
	}
	for _, use := range progress.GPUs {
		told.Memory = append(told.Memory, &api.DeviceMemory{Gpu: uint32(use.Ordinal), Bytes: use.BackedBytes})
	}
	return told
}

// policyOf converts a checkpoint policy of pos.yaml to the message that phosd gets.
func policyOf(policy config.Policy) *api.Policy {
	return &api.Policy{
		Dir: policy.Dir, EveryMilliseconds: uint64(time.Duration(policy.Every).Milliseconds()), Keep: uint64(policy.Keep),
		BandwidthBytes: uint64(policy.Bandwidth), On: policy.On, RestoreOnBoot: policy.OnBoot,
	}
}

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

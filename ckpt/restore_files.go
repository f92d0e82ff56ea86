package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// DecideFiles decides what a restore does with the files that the program had open for writing.
func DecideFiles(m *image.Manifest, order CommitOptions) ([]savedfile.Decision, error) {
	options := savedfile.Options{
		Root:   order.Root,
		As:     fsuid.Rights{UID: m.Owner.UID, GID: m.Owner.GID, Groups: m.Owner.Groups},
		Policy: order.Files, Own: order.Own, CompareContent: order.CompareContent,
	}
	if order.NewPids {
		options.Private = savedfile.InSharedMemory
	}
	return savedfile.Decide(m, options)
}

// RefusedFiles returns the files that prevent a restore.
func RefusedFiles(decisions []savedfile.Decision) (refused []Obstacle) {
	for _, d := range decisions {
		if d.Action == savedfile.ActionRefuse {
			refused = append(refused, Obstacle{
				Subject: "file " + d.Path, Reason: d.Reason,
				Remedy: "--files=keep keeps such files, --files=restore overwrites them",
			})
		}
	}
	return refused
}

// maxDecisions is how often a restore decides about files that others write in the meantime.
const maxDecisions = 3

// restoreWithFiles restores a tree and the files. It decides about the files as late as possible: a
// caller that holds the restore, or an eager one, has left time for others to write. If a file
// changes between the decision and the restore, nothing has been written, and it decides again.
func (r *restore) restoreWithFiles(ctx context.Context, order RestoreOptions) (Restored, error) {
	m := r.Prepared.order.Source.Manifest
	order.Notice = r.once(order.Notice)
	for try := 1; ; try++ {
		how := r.order
		how.CompareContent = try > 1
		decisions, err := DecideFiles(m, how)
		if err != nil {
			return nil, err
		}
		if refused := RefusedFiles(decisions); len(refused) > 0 {
			return nil, &ObstacleError{refused}
		}
		files, notices, err := r.writtenFiles(decisions)
		if err != nil {
			return nil, err
		}
		order.Files = files
		restored, err := r.Prepared.order.CPU.Restore(ctx, order)
		if errors.Is(err, savedfile.ErrChanged) && try < maxDecisions {
			continue
		}
		if order.Notice != nil {
			for _, text := range notices {
				order.Notice(text)
			}
		}
		return restored, err
	}
}

// once returns a function that gives each notice once; nil for nil.
func (r *restore) once(notice func(string)) func(string) {
	if notice == nil {
		return nil
	}
	given := make(map[string]bool)
	return func(text string) {
		if !given[text] {
			given[text] = true
			notice(text)
		}
	}
}

// writtenPaths returns the paths of the files that the programs had open for writing.
func writtenPaths(m *image.Manifest) (paths []string) {
	for _, saved := range m.Files {
		if !saved.Library {
			paths = append(paths, saved.Path)
		}
	}
	return paths
}

// copyStamp is the form of the time in the names of copies.
const copyStamp = "20060102T150405.000Z"

// writtenFiles returns the files whose content must be restored, and what the user must know of
// them.
func (r *restore) writtenFiles(decisions []savedfile.Decision) (files []FileContent, notices []string, err error) {
	decided := make(map[string]savedfile.Decision, len(decisions))
	for _, d := range decisions {
		decided[d.Path] = d
	}
	stamp := time.Now().UTC().Format(copyStamp)
	for _, saved := range r.Prepared.order.Source.Manifest.Files {
		if saved.Library {
			continue
		}
		var content io.Reader
		if saved.Hash != "" {
			if content, err = savedfile.Content(r.Prepared.order.Source.Reader, saved); err != nil {
				return nil, nil, err
			}
		}
		file := FileContent{
			Path: saved.Path, Bytes: int64(saved.Bytes), Mode: saved.Mode, Content: content,
			MinBytes: int64(saved.Bytes),
		}
		if saved.Cut != nil && !saved.Cut.Mapped {
			file.MinBytes = 0
		}
		d := decided[saved.Path]
		file.Keep, file.Seen = d.Action == savedfile.ActionKeep, d.Seen
		if d.Action == savedfile.ActionCopy {
			file.CopyTo, file.CopyFrom = savedfile.CopyName(saved.Path, stamp), d.CopyFrom
		}
		if d.Reason != "" && d.KeptBytes == 0 {
			notices = append(notices, noticeOf(d, file.CopyTo))
		}
		files = append(files, file)
	}
	if text := savedfile.KeptLogs(decisions); text != "" {
		notices = append(notices, text)
	}
	return files, notices, nil
}

// noticeOf says what is done with a file that has changed since the checkpoint.
func noticeOf(d savedfile.Decision, copied string) string {
	does := "it is overwritten with its content at the checkpoint"
	switch d.Action {
	case savedfile.ActionKeep:
		does = "it is kept as it is"
	case savedfile.ActionCopy:
		does = "it gets its content at the checkpoint, and what that overwrites is in " + copied
	case savedfile.ActionRestore, savedfile.ActionRefuse:
	}
	return fmt.Sprintf("file %s %s; %s", d.Path, d.Reason, does)
}

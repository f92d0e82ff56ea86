package savedfile

import (
	"fmt"
	"strings"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/internal/linux/bounded"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// Policy says what a restore does with files that have changed since the checkpoint.
type Policy string

// The policies. Default is that of the package's documentation.
const (
	Default Policy = ""
	Keep    Policy = "keep"
	Restore Policy = "restore"
	Refuse  Policy = "refuse"
)

// ParsePolicy parses the value of --files.
func ParsePolicy(text string) (Policy, error) {
	switch p := Policy(text); p {
	case Default, Keep, Restore, Refuse:
		return p, nil
	}
	return Default, fmt.Errorf("%q says nothing about files; use keep, restore or refuse", text)
}

// Action is what a restore does with a file. The values are in the output of image check --json.
type Action string

// The actions. ActionCopy copies the bytes that a restore overwrites, and restores the file.
const (
	ActionRestore Action = "restore"
	ActionCopy    Action = "copy and restore"
	ActionKeep    Action = "keep"
	ActionRefuse  Action = "refuse"
)

// Decision is what a restore does with a file, and why.
type Decision struct {
	Path   string
	Change Change
	Action Action
	// Reason is empty for a file that has not changed.
	Reason string
	// CopyFrom is the first byte to copy, for ActionCopy.
	CopyFrom int64
	// KeptBytes is what was appended to a log since the checkpoint. Such a log is kept only because
	// the program appends to it; 0 for any other file.
	KeptBytes int64
	// Seen is the state for which the decision is good; nil if it is good for any.
	Seen *Seen
}

// Notable reports whether a user must know of the decision.
func (d *Decision) Notable() bool { return d.Reason != "" }

// Text describes the decision in words.
func (d *Decision) Text() string {
	does := map[Action]string{
		ActionRestore: "a restore overwrites it with its content at the checkpoint",
		ActionCopy:    "a restore gives it its content at the checkpoint, and copies what that overwrites to a file beside it",
		ActionKeep:    "a restore keeps it as it is",
		ActionRefuse:  "it is not restored",
	}
	text := d.Reason + "; " + does[d.Action]
	if d.KeptBytes > 0 {
		text += logChoice
	}
	return text
}

// logChoice is what a user must know of logs that are kept.
const logChoice = " (the program goes back in time and may write the same lines again; --files=restore cuts them off)"

// KeptLogs names the logs that are kept with what was appended since the checkpoint, in one line;
// empty for none.
func KeptLogs(decisions []Decision) string {
	var logs []string
	for _, d := range decisions {
		if d.KeptBytes > 0 {
			logs = append(logs, fmt.Sprintf("%s (%d bytes)", d.Path, d.KeptBytes))
		}
	}
	if len(logs) == 0 {
		return ""
	}
	return "kept logs with what was appended to them since the checkpoint: " + strings.Join(logs, ", ") + logChoice
}

// Options say how to decide.
type Options struct {
	// Root is the root directory below which the files lie. As are the rights of the program's user.
	Root *rootdir.Root
	As   fsuid.Rights
	// Policy decides about changed files.
	Policy Policy
	// Own are pids that do not count as other programs.
	Own []int
	// Private reports whether the restored program gets its own copy of a path; nil: of none.
	Private func(path string) bool
	// CompareContent is set if equal times must not be taken for equal content.
	CompareContent bool
	// patience replaces the time limits, for tests.
	patience time.Duration
}

// limit returns a time limit.
func (o *Options) limit(usual time.Duration) time.Duration {
	if o.patience > 0 {
		return o.patience
	}
	return usual
}

// question is that about a file.
func (o *Options) question(path string) bounded.Question {
	return bounded.Question{UID: o.As.UID, Of: o.Root.Key(path)}
}

// InSharedMemory reports whether a path lies in the directory of which a program that is restored
// with new pids gets its own.
func InSharedMemory(path string) bool { return strings.HasPrefix(path, "/dev/shm/") }

// file is a saved file and what was found.
type file struct {
	image.SavedFile
	state
	writer *proc.Identity
	// reader has the file open, and may not write it.
	reader *proc.Identity
	// unknown are processes of which it is unknown whether they write the file.
	unknown []unasked
	// as is Options.As.
	as fsuid.Rights
	// database is the path of the SQLite database to which the file belongs; empty for none.
	database string
}

// Decide decides about all files of an image that a restore would write. It changes nothing.
func Decide(m *image.Manifest, o Options) ([]Decision, error) {
	files, err := inspect(m, o)
	if err != nil {
		return nil, err
	}
	databases := findDatabases(files, o)
	decisions := make([]Decision, len(files))
	for i, f := range files {
		if db := databases[f.database]; db != nil {
			decisions[i] = db.decide(f, o.Policy)
		} else {
			decisions[i] = f.decide(o.Policy)
		}
		decisions[i].Seen = f.seenFor(decisions[i], o.Policy)
	}
	return decisions, nil
}

// inspect compares all files, and finds those that other processes write.
func inspect(m *image.Manifest, o Options) (files []*file, err error) {
	existing := make(map[string]*found)
	for _, saved := range m.Files {
		if saved.Library || o.Private != nil && o.Private(saved.Path) {
			continue
		}
		f := &file{SavedFile: saved, as: o.As}
		if f.state, err = compareWithin(o, saved); err != nil {
			return nil, err
		}
		if f.change != Missing && f.failure == nil {
			existing[f.Path] = &f.found
		}
		files = append(files, f)
	}
	if len(existing) == 0 {
		return files, nil
	}
	pids, err := others(o.Own)
	if err != nil {
		return nil, err
	}
	users := newSearch(o.Root, existing).find(pids)
	for _, f := range files {
		f.unknown = users.unknown
		if existing[f.Path] == nil {
			continue
		}
		if id, ok := users.writers[f.id()]; ok {
			f.writer = &id
		} else if id, ok := users.readers[f.id()]; ok {
			f.reader = &id
		}
	}
	return files, nil
}

// seenFor returns the state on which a decision depends. What is kept is not written, and what the
// user wants overwritten may be in any state.
func (f *file) seenFor(d Decision, policy Policy) *Seen {
	switch {
	case d.Action != ActionRestore && d.Action != ActionCopy, f.isChanged() && policy == Restore:
		return nil
	case f.change == Unchanged || f.change == Grown && d.CopyFrom > 0:
		return f.seen(f.Hash, f.Bytes)
	}
	return f.seen("", 0)
}

// decide decides about a file that belongs to no database.
func (f *file) decide(policy Policy) Decision {
	d := Decision{Path: f.Path, Change: f.change, Action: ActionRestore, Reason: f.describe()}
	switch {
	case f.failure != nil:
		d.Action = ActionRefuse
	case f.isChanged() && policy == Refuse:
		d.Action = ActionRefuse
	case f.writer != nil:
		d.Action = ActionKeep
	case f.onlyTimes():
		d.Action, d.Reason = ActionKeep, d.Reason+", and its content is not in the image"
	case !f.isChanged() || policy == Restore:
	case policy == Keep:
		d.Action = ActionKeep
	case f.change == Grown && f.Cut != nil && f.Cut.Append:
		d.Action, d.Reason = ActionKeep, d.Reason+", and the program only appends to it"
		d.KeptBytes = f.stat.Size - int64(f.Bytes)
	case f.reader != nil:
		d.Action = ActionKeep
	case f.unread:
		d.Action, d.Reason = ActionKeep, d.Reason+", and its user may not read it, so that no copy can be made"
	case f.stat.Size == 0:
		// Nothing would be in a copy.
	case InSharedMemory(f.Path):
		// Memory that no other process uses is worthless, and a copy would take memory.
		d.Reason = ""
	default:
		d.Action = ActionCopy
		if f.change == Grown {
			d.CopyFrom = int64(f.Bytes)
		}
	}
	return d
}

// onlyTimes reports whether the file has its old length, and nothing but its times says that it has
// changed.
func (f *file) onlyTimes() bool {
	return f.change == Modified && f.Hash == "" && f.stat.Size == int64(f.Bytes)
}

// describe says what was found; it is empty for a file that has not changed.
func (f *file) describe() string {
	var said []string
	switch {
	case f.failure != nil:
		return f.failure.Error()
	case f.change == Grown:
		said = append(said, fmt.Sprintf("has grown by %d bytes since the checkpoint", f.stat.Size-int64(f.Bytes)))
	case f.onlyTimes():
		said = append(said, "may have changed since the checkpoint: its times are different")
	case f.change == Modified:
		said = append(said, fmt.Sprintf(
			"has changed since the checkpoint: it has %d bytes, and had %d", f.stat.Size, f.Bytes))
	case f.change == Replaced:
		said = append(said, fmt.Sprintf(
			"was replaced since the checkpoint: it has %d bytes, and had %d", f.stat.Size, f.Bytes))
	}
	switch {
	case f.writer != nil:
		said = append(said, f.writer.DescribeTo(f.as.UID)+" has it open for writing")
	case f.isChanged() && f.reader != nil:
		said = append(said, f.reader.DescribeTo(f.as.UID)+" has it open")
	case f.isChanged() && len(f.unknown) > 0:
		said = append(said, f.unknown[0].describeTo(f.as.UID))
	}
	return strings.Join(said, ", and ")
}

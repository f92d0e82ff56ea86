package savedfile

import (
	"io"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/internal/linux/bounded"
)

// sqliteMagic begins each SQLite database.
const sqliteMagic = "SQLite format 3\x00"

// Suffixes of the files beside a database: its write-ahead log, the index of that, which is shared
// memory and holds no data of its own, and its rollback journal.
const (
	logSuffix     = "-wal"
	indexSuffix   = "-shm"
	journalSuffix = "-journal"
)

// database is an SQLite database. Its files are one thing: an old log with a new database would
// damage it.
type database struct {
	files []*file
	// changed is set if its data has changed, or if another process has one of its files open.
	changed bool
	// stray is the path of a log or journal with content that is not in the image; empty for none.
	stray string
}

// baseOf returns the path of the database to which a file belongs, and the file's suffix.
func baseOf(path string) (base, suffix string) {
	for _, suffix := range []string{logSuffix, indexSuffix, journalSuffix} {
		if base, ok := strings.CutSuffix(path, suffix); ok {
			return base, suffix
		}
	}
	return path, ""
}

// findDatabases finds the SQLite databases among the files, and sets the database of each file.
func findDatabases(files []*file, o Options) map[string]*database {
	found := make(map[string]*database)
	known := make(map[string]bool)
	for _, f := range files {
		base, suffix := baseOf(f.Path)
		sqlite, seen := known[base]
		if !seen {
			sqlite = f.failure == nil && isSQLite(o, base)
			known[base] = sqlite
		}
		if !sqlite {
			continue
		}
		f.database = base
		db := found[base]
		if db == nil {
			db = &database{}
			found[base] = db
		}
		db.files = append(db.files, f)
		db.changed = db.changed || f.writer != nil || f.isChanged() && suffix != indexSuffix
	}
	for base, db := range found {
		db.stray = findStray(db, base, o)
	}
	return found
}

// findStray returns the path of a log or journal of a database that has content and is not in the
// image.
func findStray(db *database, base string, o Options) string {
	for _, suffix := range []string{logSuffix, journalSuffix} {
		path := base + suffix
		if slices.ContainsFunc(db.files, func(f *file) bool { return f.Path == path }) {
			continue
		}
		if len(begin(o, path, 1)) > 0 {
			return path
		}
	}
	return ""
}

// isSQLite reports whether a file is an SQLite database now.
func isSQLite(o Options, path string) bool {
	return string(begin(o, path, len(sqliteMagic))) == sqliteMagic
}

// begin returns the first bytes of a file; none if it cannot be read.
func begin(o Options, path string, count int) []byte {
	first, _ := bounded.Call(o.question(path), o.limit(bounded.FileTime), func() []byte {
		file, _, err := Open(o.As, o.Root, path)
		if err != nil {
			return nil
		}
		defer file.Close()
		first := make([]byte, count)
		got, _ := io.ReadFull(file, first)
		return first[:got]
	})
	return first
}

// decide decides about a file of the database: either all its files are kept or none. A log or
// journal that is not in the image belongs to what is there now: SQLite would replay it into
// another content.
func (db *database) decide(f *file, policy Policy) Decision {
	d := db.decideTogether(f, policy)
	if db.changed && db.stray != "" && (d.Action == ActionRestore || d.Action == ActionCopy) {
		d.Action = ActionRefuse
		d.Reason = "belongs to an SQLite database that has changed, and " + db.stray +
			" is not in the image (let a program recover that database, or keep it by --files=keep)"
	}
	return d
}

// decideTogether decides about a file by what has become of all files of the database.
func (db *database) decideTogether(f *file, policy Policy) Decision {
	d := f.decide(policy)
	if _, suffix := baseOf(f.Path); suffix == indexSuffix && d.Action == ActionCopy {
		d.Action, d.Reason = ActionRestore, ""
	}
	if d.Action == ActionRefuse || !db.changed {
		return d
	}
	for _, other := range db.files {
		if other.writer == nil {
			continue
		}
		d.Action = ActionKeep
		if d.Reason == "" {
			d.Reason = "belongs to an SQLite database of which another program has a file open"
		}
		return d
	}
	switch {
	case policy == Restore || policy == Refuse:
		d.Action = ActionRestore
	case policy == Default && db.inTransaction():
		// The program would go on with a transaction that its database no longer has.
		_, suffix := baseOf(f.Path)
		switch {
		case f.stat.Size == 0 || suffix == indexSuffix:
		case f.isChanged():
			d.Action, d.CopyFrom = ActionCopy, 0
			d.Reason += ", and the program was in a transaction on this SQLite database"
		case suffix == "": // a copy of the log is worth nothing without it
			d.Action, d.CopyFrom = ActionCopy, 0
			d.Reason = "belongs to an SQLite database that has changed, and the program was in a transaction on it"
		}
	default:
		d.Action = ActionKeep
		if d.Reason == "" {
			d.Reason = "belongs to an SQLite database that has changed since the checkpoint"
		} else {
			d.Reason += ", and belongs to an SQLite database, which programs share"
		}
	}
	return d
}

// inTransaction reports whether the program was in a transaction that cannot go on with other data.
// With a write-ahead log only a writer is; its readers, and idle connections, hold read locks. With
// a rollback journal each lock belongs to a transaction.
func (db *database) inTransaction() bool {
	locked, withLog := "", false
	for _, f := range db.files {
		_, suffix := baseOf(f.Path)
		withLog = withLog || suffix == indexSuffix || suffix == logSuffix
		if f.Cut != nil && f.Cut.Lock != "" && locked != "write" {
			locked = f.Cut.Lock
		}
	}
	return locked == "write" || locked != "" && !withLog
}

// CopyName returns the path to which the old content of a file is copied. The files of a database
// keep their suffixes, so that the copies are a database too.
func CopyName(path, stamp string) string {
	base, suffix := baseOf(path)
	return base + ".phos-" + stamp + suffix
}

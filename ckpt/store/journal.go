package store

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/phos-gpu/phos/ckpt/image"
)

// journal is the journal of a commit. It exists in tmp from before the first pack is moved to its
// place until the generation exists. A writer that finds a journal knows that a commit was
// interrupted: unless the generation exists, the packs in the journal are garbage.
type journal struct {
	generation uint64
	packs      []image.ID
}

const maxJournalBytes = 4 << 20

func (j journal) encode() []byte {
	text := fmt.Appendf(nil, "generation %d\n", j.generation)
	for _, id := range j.packs {
		text = fmt.Appendf(text, "pack %s\n", id)
	}
	return append(text, "end\n"...)
}

// decodeJournal decodes a journal. A truncated one was still being written, so no pack had been
// moved.
func decodeJournal(raw []byte) (journal, error) {
	var j journal
	text, whole := strings.CutSuffix(string(raw), "end\n")
	first, rest, _ := strings.Cut(text, "\n")
	digits, named := strings.CutPrefix(first, "generation ")
	if !whole || !named {
		return j, fmt.Errorf("%w: the journal has no end", image.ErrMalformed)
	}
	if _, err := fmt.Sscanf(digits, "%d", &j.generation); err != nil {
		return j, fmt.Errorf("%w: the journal names no generation", image.ErrMalformed)
	}
	for line := range strings.Lines(rest) {
		id, err := image.ParseID(strings.TrimSuffix(strings.TrimPrefix(line, "pack "), "\n"))
		if err != nil {
			return j, err
		}
		j.packs = append(j.packs, id)
	}
	return j, nil
}

// cleanUp removes what an interrupted writer has left.
func (d *Dir) cleanUp(writer held) error {
	raw, err := writer.tmp.read(journalName, maxJournalBytes)
	switch {
	case err == nil:
		if j, err := decodeJournal(raw); err == nil {
			if err := d.rollBack(j); err != nil {
				return err
			}
		}
	case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, image.ErrMalformed):
		return err
	}
	names, err := writer.tmp.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !isTemporary(name) {
			continue
		}
		if err := writer.tmp.remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// rollBack removes the packs of a generation that does not exist.
func (d *Dir) rollBack(j journal) error {
	all, err := d.Generations()
	if err != nil {
		return err
	}
	for _, n := range all {
		if n == j.generation {
			return nil
		}
	}
	for _, id := range j.packs {
		if err := d.packs.remove(packName(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return d.packs.sync()
}

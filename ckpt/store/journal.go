package store

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/phos-gpu/phos/ckpt/image"
)

// The journal of a commit stands in tmp from before the first pack is put in its place until after
// the generation is. When a writer finds one, a commit did not come to its end: the packs that it
// names belong to the generation, or to nobody.
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

// decodeJournal reads a journal. One that is cut off was being written: nothing had been moved
// then.
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

// recover clears what a writer has left that did not come to its end.
func (d *Dir) recover(writer held) error {
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

// rollBack removes the packs of a generation that is not there.
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

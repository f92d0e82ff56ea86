package pager

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/criu/imagefile"
)

// minLazyBytes is the least memory of a mapping that is worth it: each first touch of a page costs
// more than to have it at once.
const minLazyBytes = 1 << 20

// maxImageBytes is an upper bound for an image that is read as a whole: a list of some millions of
// runs of pages.
const maxImageBytes = 64 << 20

// layout is the memory of the processes of a tree, in its image.
type layout struct {
	reader *contents.Reader
	// entries are CRIU's files by their names; those of the parent images are below "parent/".
	entries map[string]image.Entry
	// files are the pages images.
	files     []pagesFile
	processes map[int]*process
	// runs is how many runs of pages there are.
	runs int
}

// maxRuns is an upper bound for them in a tree, which bounds the memory of this process.
const maxRuns = 8 << 20

// pagesFile is an image with the content of pages.
type pagesFile struct {
	entry image.Entry
	// parent is set if it was copied before the cut: it has what was not written at last.
	parent bool
	opened io.ReaderAt
}

// process is the memory of a process.
type process struct {
	mappings *imagefile.Mappings
	// id names its pages image.
	id uint64
	// pages are all that have content. lazy are those that come later.
	pages, lazy pieces
	// early is how much does not, by the reason.
	early map[string]uint64
}

// readLayout reads which pages the processes of a tree had.
func readLayout(reader *contents.Reader, hash string, root int) (*layout, error) {
	name, err := image.ParseHash(hash)
	if err != nil {
		return nil, err
	}
	tree, err := reader.Tree(name)
	if err != nil {
		return nil, err
	}
	l := &layout{reader: reader, entries: map[string]image.Entry{}, processes: map[int]*process{}}
	for _, entry := range tree.Entries {
		if name, mine := strings.CutPrefix(entry.Name, strconv.Itoa(root)+"/"); mine && entry.Kind == image.File {
			l.entries[name] = entry
		}
	}
	for name := range l.entries {
		if pid, is := PagemapOf(name); is {
			if l.processes[pid], err = l.readProcess(pid); err != nil {
				return nil, fmt.Errorf("memory of pid %d: %w", pid, err)
			}
		}
	}
	shared, err := l.sharedSinceFork()
	if err != nil {
		return nil, err
	}
	for pid, p := range l.processes {
		p.chooseLazy(shared[pid])
	}
	return l, nil
}

// PagemapOf returns the pid of a process by the name of its pagemap.
func PagemapOf(name string) (pid int, is bool) {
	text, is := strings.CutPrefix(name, "pagemap-")
	if !is {
		return 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSuffix(text, ".img"))
	return pid, err == nil && pid > 0 && imagefile.PagemapName(pid) == name
}

// read reads a whole image.
func (l *layout) read(name string) ([]byte, error) {
	entry, found := l.entries[name]
	if !found {
		return nil, fmt.Errorf("%w: no %s", image.ErrMalformed, name)
	}
	if entry.Bytes > maxImageBytes {
		return nil, fmt.Errorf("%w: %s has %d bytes", image.ErrMalformed, name, entry.Bytes)
	}
	content := make([]byte, entry.Bytes)
	return content, l.reader.ReadFile(entry, content)
}

// readProcess reads the mappings and pages of a process.
func (l *layout) readProcess(pid int) (*process, error) {
	content, err := l.read(imagefile.MappingsName(pid))
	if err != nil {
		return nil, err
	}
	p := &process{pages: newPieces(), lazy: newPieces(), early: map[string]uint64{}}
	if p.mappings, err = imagefile.ReadMappings(content); err != nil {
		return nil, err
	}
	if p.pages, p.id, err = l.readPages("", pid); err != nil {
		return nil, err
	}
	return p, l.checkBytes(p.pages)
}

// readPages reads the pages of a process whose list is in a directory, and the number of their
// image. A page that this does not have is in the parent images.
func (l *layout) readPages(where string, pid int) (all pieces, id uint64, err error) {
	all = newPieces()
	if strings.Count(where, "/") > ckpt.MaxParents {
		return all, 0, fmt.Errorf("%w: images with too many parents", image.ErrMalformed)
	}
	list, file, err := l.readPagemap(where, pid)
	if err != nil {
		return all, 0, err
	}
	var parent *pieces
	offset := uint64(0)
	for _, run := range list.Pages {
		if !run.InParent {
			all.add(piece{run.Start, run.End, file, offset})
			offset += run.End - run.Start
			continue
		}
		if parent == nil {
			below, _, err := l.readPages(where+ckpt.ParentImages+"/", pid)
			if err != nil {
				return all, 0, err
			}
			parent = &below
		}
		if err := all.addParent(*parent, run); err != nil {
			return all, 0, err
		}
	}
	return all, list.ID, nil
}

// addParent adds a run of pages that the parent images have.
func (p pieces) addParent(parent pieces, run imagefile.Pages) error {
	at := run.Start
	for _, part := range parent.within(run.Start, run.End) {
		if part.start != at {
			break
		}
		p.add(part)
		at = part.end
	}
	if at != run.End {
		return fmt.Errorf("%w: no content of the page at %#x", image.ErrMalformed, at)
	}
	return nil
}

// readPagemap reads a pagemap, and numbers its pages image.
func (l *layout) readPagemap(where string, pid int) (*imagefile.Pagemap, int, error) {
	content, err := l.read(where + imagefile.PagemapName(pid))
	if err != nil {
		return nil, 0, err
	}
	list, err := imagefile.ReadPagemap(content)
	if err != nil {
		return nil, 0, err
	}
	if l.runs += len(list.Pages); l.runs > maxRuns {
		return nil, 0, fmt.Errorf("%w: more than %d runs of pages", image.ErrMalformed, maxRuns)
	}
	name := where + imagefile.PagesName(list.ID)
	entry, found := l.entries[name]
	if !found && len(list.Pages) > 0 {
		return nil, 0, fmt.Errorf("%w: no %s", image.ErrMalformed, name)
	}
	l.files = append(l.files, pagesFile{entry: entry, parent: where != ""})
	return list, len(l.files) - 1, nil
}

// checkBytes returns an error if an image lacks content.
func (l *layout) checkBytes(all pieces) (err error) {
	all.tree.Ascend(func(one piece) bool {
		if entry := l.files[one.file].entry; one.offset+one.end-one.start > entry.Bytes {
			err = fmt.Errorf("%w: %s has no content of the page at %#x", image.ErrMalformed, entry.Name, one.start)
		}
		return err == nil
	})
	return err
}

// sharedSinceFork returns the mappings that processes may share with their parents, by the start.
// CRIU restores these in the parent, before it forks the child.
func (l *layout) sharedSinceFork() (map[int]map[uint64]bool, error) {
	content, err := l.read(imagefile.Tree)
	if err != nil {
		return nil, err
	}
	parents, err := imagefile.ReadParents(content)
	if err != nil {
		return nil, err
	}
	shared := map[int]map[uint64]bool{}
	mark := func(pid int, start uint64) {
		if shared[pid] == nil {
			shared[pid] = map[uint64]bool{}
		}
		shared[pid][start] = true
	}
	for pid, child := range l.processes {
		parent := l.processes[parents[pid]]
		if parent == nil || parent.mappings.Program != child.mappings.Program {
			continue
		}
		ends := map[uint64]uint64{}
		for _, m := range parent.mappings.All {
			ends[m.Start] = m.End
		}
		for _, m := range child.mappings.All {
			if ends[m.Start] == m.End {
				mark(pid, m.Start)
				mark(parents[pid], m.Start)
			}
		}
	}
	return shared, nil
}

// chooseLazy divides the pages.
func (p *process) chooseLazy(shared map[uint64]bool) {
	for _, m := range p.mappings.All {
		if why := whyEarly(&m, shared[m.Start]); why != "" {
			for _, part := range p.pages.within(m.Start, m.End) {
				p.early[why] += part.end - part.start
			}
			continue
		}
		for _, part := range p.pages.take(m.Start, m.End) {
			p.lazy.add(part)
		}
	}
}

// Reasons why memory is there before a process runs.
const (
	sinceFork    = "that processes may share since a fork"
	locked       = "that is locked"
	sharedMemory = "of shared memory"
	small        = "of stacks, files and small mappings"
)

// whyEarly returns why the pages of a mapping do not come later, if they do not.
func whyEarly(m *imagefile.Mapping, shared bool) string {
	switch {
	case m.Locked():
		return locked
	case !m.Lazy() || m.End-m.Start < minLazyBytes:
		return small
	case shared:
		return sinceFork
	}
	return ""
}

// lazyBytes returns how much memory comes later.
func (l *layout) lazyBytes() (total uint64) {
	for _, p := range l.processes {
		total += p.lazy.bytes()
	}
	return total
}

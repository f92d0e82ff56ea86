package pager

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/criu/imagefile"
)

// Composes reports whether the pager writes a file of CRIU's: the pages of processes.
func Composes(name string) bool {
	_, pagemap := PagemapOf(name)
	return pagemap || isPages(name) || strings.HasPrefix(name, ckpt.ParentImages+"/")
}

// isPages reports whether a file has the content of pages.
func isPages(name string) bool {
	text, is := strings.CutPrefix(name, "pages-")
	id, err := strconv.ParseUint(strings.TrimSuffix(text, ".img"), 10, 64)
	return is && err == nil && imagefile.PagesName(id) == name
}

// compose writes the images of pages for CRIU, without the pages that come later.
func (l *layout) compose(into *os.File) error {
	for pid, p := range l.processes {
		list := imagefile.Pagemap{ID: p.id}
		var content []io.Reader
		p.pages.tree.Ascend(func(one piece) bool {
			list.Pages = append(list.Pages, imagefile.Pages{Start: one.start, End: one.end})
			content = append(content, l.section(one))
			return true
		})
		err := write(into, imagefile.PagemapName(pid), bytes.NewReader(imagefile.EncodePagemap(list)))
		if err == nil {
			err = write(into, imagefile.PagesName(p.id), io.MultiReader(content...))
		}
		if err != nil {
			return err
		}
	}
	for name, entry := range l.sharedFiles() {
		if err := write(into, name, io.NewSectionReader(l.reader.Open(entry), 0, int64(entry.Bytes))); err != nil {
			return err
		}
	}
	return nil
}

// sharedFiles are the pages images of shared memory, by their names.
func (l *layout) sharedFiles() map[string]image.Entry {
	found := map[string]image.Entry{}
	for name, entry := range l.entries {
		if isPages(name) {
			found[name] = entry
		}
	}
	for _, p := range l.processes {
		delete(found, imagefile.PagesName(p.id))
	}
	return found
}

// section returns the content of a piece.
func (l *layout) section(one piece) io.Reader {
	return io.NewSectionReader(l.open(one.file), int64(one.offset), int64(one.end-one.start))
}

// open returns the content of a pages image.
func (l *layout) open(file int) io.ReaderAt {
	if l.files[file].opened == nil {
		l.files[file].opened = l.reader.Open(l.files[file].entry)
	}
	return l.files[file].opened
}

// write creates a file of the images.
func write(into *os.File, name string, content io.Reader) error {
	file, err := ckpt.CreateImage(into, name)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

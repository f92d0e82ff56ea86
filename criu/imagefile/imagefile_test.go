package imagefile

import (
	"errors"
	"reflect"
	"testing"
)

// TestPagemap: what is encoded is read again, and damaged images are errors.
func TestPagemap(t *testing.T) {
	want := Pagemap{ID: 7, Pages: []Pages{
		{Start: 0x1000, End: 0x5000}, {Start: 0x5000, End: 0x6000, InParent: true}, {Start: 0x7fff00000000, End: 0x7fff40000000},
	}}
	image := EncodePagemap(want)
	got, err := ReadPagemap(image)
	if err != nil || !reflect.DeepEqual(*got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
	for cut := range image {
		if got, err := ReadPagemap(image[:cut]); err == nil && len(got.Pages) == len(want.Pages) {
			t.Errorf("%d bytes of %d are enough", cut, len(image))
		} else if err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%d bytes: %v", cut, err)
		}
	}
	for _, bad := range []Pages{
		{Start: 0x1001, End: 0x2001},
		{Start: 0x3000, End: 0x4000},                  // before the last
		{Start: 1 << 63, End: 1<<63 + 0x1000},         // no process has it
		{Start: 0x7ffffffffffff000, End: 1<<63 + 1e6}, // nor this
	} {
		list := want
		list.Pages = append([]Pages(nil), want.Pages...)
		list.Pages = append(list.Pages, bad)
		if got, err := ReadPagemap(EncodePagemap(list)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v: got %+v, %v", bad, got, err)
		}
	}
}

// FuzzRead reads arbitrary images.
func FuzzRead(f *testing.F) {
	f.Add(EncodePagemap(Pagemap{ID: 1, Pages: []Pages{{Start: 0x1000, End: 0x5000}}}))
	f.Fuzz(func(t *testing.T, image []byte) {
		pagemap, err := ReadPagemap(image)
		if err == nil {
			last := uint64(0)
			for _, each := range pagemap.Pages {
				if each.Start < last || each.End <= each.Start {
					t.Fatalf("pages %+v behind %#x", each, last)
				}
				last = each.End
			}
		}
		mappings, mapped := ReadMappings(image)
		if mapped == nil {
			last := uint64(0)
			for _, each := range mappings.All {
				if each.Start < last || each.End < each.Start {
					t.Fatalf("mapping %+v behind %#x", each, last)
				}
				last = each.End
			}
		}
		_, tree := ReadParents(image)
		for _, err := range []error{err, mapped, tree} {
			if err != nil && !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
		}
	})
}

package record

import (
	"fmt"
	"maps"
	"testing"

	"github.com/phos-gpu/phos/cluster/launch"
)

// cutImage returns the image of a replica in a cut. Its name says which it is.
func cutImage(replica, cut int) Image {
	return Image{
		Replica: replica, Attempt: 1, Node: fmt.Sprintf("n%d", replica), Dir: "/d", Generation: uint64(cut), Cut: cut,
	}
}

// withCuts returns a launch of two replicas with images of some cuts. The state names the last one.
func withCuts(images ...Image) *Launch {
	l := &Launch{State: launch.State{Replicas: make([]launch.Replica, 2)}}
	l.State.Cut = map[int]string{}
	for _, image := range images {
		l.AddImage(image)
		l.State.Cut[image.Replica] = image.Name()
	}
	return l
}

// TestNewestCut: the images of a cut are taken all or none, and the newest whole cut is taken.
func TestNewestCut(t *testing.T) {
	both := []Image{cutImage(0, 1), cutImage(1, 1), cutImage(0, 2), cutImage(1, 2)}
	for name, test := range map[string]struct {
		images []Image
		lost   []Image
		want   int // the cut that is taken; 0: none
	}{
		"all are there":           {both, nil, 2},
		"one is lost":             {both, []Image{cutImage(1, 2)}, 1},
		"one of each cut is lost": {both, []Image{cutImage(1, 2), cutImage(0, 1)}, 0},
		"a cut has only one": {
			[]Image{cutImage(0, 1), cutImage(1, 1), cutImage(0, 3), cutImage(1, 2), cutImage(0, 2)}, []Image{cutImage(1, 2)}, 1,
		},
		"the newest has only one": {[]Image{cutImage(0, 2), cutImage(1, 2), cutImage(1, 3)}, nil, 2},
		"there is no image":       {nil, nil, 0},
		"all are lost":            {[]Image{cutImage(0, 1), cutImage(1, 1)}, []Image{cutImage(0, 1), cutImage(1, 1)}, 0},
	} {
		lost := map[string]bool{}
		for _, image := range test.lost {
			lost[image.Name()] = true
		}
		got := withCuts(test.images...).NewestCut(func(i *Image) bool { return !lost[i.Name()] })
		want := map[int]string{}
		if test.want > 0 {
			for replica := range 2 {
				image := cutImage(replica, test.want)
				want[replica] = image.Name()
			}
		}
		names := map[int]string{}
		for replica, image := range got {
			names[replica] = image.Name()
		}
		if !maps.Equal(names, want) {
			t.Errorf("%s: got %v, want %v", name, names, want)
		}
	}
}

// TestNewestCutOfOne: each image of a launch of one replica is a cut by itself.
func TestNewestCutOfOne(t *testing.T) {
	l := &Launch{State: launch.State{Replicas: make([]launch.Replica, 1), Cut: map[int]string{0: "n:/d#3"}}}
	for generation := range uint64(3) {
		l.AddImage(Image{Node: "n", Dir: "/d", Generation: generation + 1, Attempt: 1})
	}
	got := l.NewestCut(func(i *Image) bool { return i.Generation < 3 })
	if len(got) != 1 || got[0].Generation != 2 {
		t.Errorf("got %v, want generation 2", got)
	}
}

// TestKeepsCuts: a launch of several replicas remembers as many images of each as one of a single
// replica does, and always those that its state names.
func TestKeepsCuts(t *testing.T) {
	l := withCuts(cutImage(0, 1), cutImage(1, 1))
	first := maps.Clone(l.State.Cut)
	for cut := 2; cut < 3*maxImages; cut++ {
		l.AddImage(cutImage(0, cut))
		l.AddImage(cutImage(1, cut))
	}
	if len(l.Images) != 2*maxImages {
		t.Errorf("it remembers %d images, want %d", len(l.Images), 2*maxImages)
	}
	for replica, name := range first {
		if image := l.Image(name); image == nil || image.Replica != replica {
			t.Errorf("the image of the cut of replica %d is forgotten", replica)
		}
	}
}

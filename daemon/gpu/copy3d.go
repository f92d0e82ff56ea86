package gpu

// EachPlane calls do for each two-dimensional slice of a copy, after merging as many rows and
// slices as possible.
func (w Copy) EachPlane(do func(dst, src Place, width, rows uint64) error) error {
	if w.Extent[0] == 0 || w.Extent[1] == 0 || w.Extent[2] == 0 {
		return nil
	}
	w = w.flatten()
	for slice := range w.Extent[2] {
		dst, src := w.Dst, w.Src
		dst.Address += slice * dst.SlicePitch
		src.Address += slice * src.SlicePitch
		if err := do(dst, src, w.Extent[0], w.Extent[1]); err != nil {
			return err
		}
	}
	return nil
}

// flatten merges rows, and then slices, that are contiguous on both sides, so that most copies
// become linear.
func (w Copy) flatten() Copy {
	if w.Extent[1] == 1 {
		// A row per slice: the slices are the rows.
		w.Extent = [3]uint64{w.Extent[0], w.Extent[2], 1}
		w.Dst.RowPitch, w.Src.RowPitch = w.Dst.SlicePitch, w.Src.SlicePitch
	}
	if w.Extent[1] > 1 && w.Dst.RowPitch == w.Extent[0] && w.Src.RowPitch == w.Extent[0] {
		w.Extent = [3]uint64{w.Extent[0] * w.Extent[1], 1, w.Extent[2]}
		if w.Extent[2] > 1 {
			return w.flatten()
		}
	}
	return w
}

// HostRows passes the rows of a buffer to ReadAt or WriteAt of the place's host memory, in one call
// if they are contiguous there. It reports whether all rows were transferred.
func (p Place) HostRows(buffer []byte, width uint64, access func([]byte, int64) (int, error)) bool {
	if p.RowPitch == width || uint64(len(buffer)) == width {
		n, _ := access(buffer, int64(p.Address))
		return n == len(buffer)
	}
	for row := uint64(0); row*width < uint64(len(buffer)); row++ {
		if n, _ := access(buffer[row*width:(row+1)*width], int64(p.Address+row*p.RowPitch)); uint64(n) < width {
			return false
		}
	}
	return true
}

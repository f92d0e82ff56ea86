// Package plot draws the results of simulations: the distribution of completion times, queue length
// and GPU use over time, a Gantt chart of jobs on GPUs, and comparisons over load.
//
// An Album is a set of results side by side, and curves over load. Album.Write writes every chart
// as SVG and PNG, and one page, index.html, with data and scripts included: it opens from disk,
// without a network, and supports hover and zoom.
//
// The colours are those of Okabe and Ito, which colour-blind people can tell apart. Results of a
// hundred thousand jobs are thinned to the resolution of a chart: of each column of pixels, the
// first, minimum, maximum and last value.
//
// It computes no published numbers: those are package sim's. Read album.go, then figure.go.
package plot

// Package plot shows what simulations came to: the distribution of completion times, the queue and
// the use of GPUs over time, a Gantt chart of jobs on GPUs, and how results compare over load.
//
// An Album is what is to be seen: one or several results side by side, and curves over load.
// Album.Write makes every picture as SVG and as PNG, and one page, index.html, that holds data and
// program in itself: it opens from disk, without a network, and lets one point and zoom.
//
// Colours are those of Okabe and Ito, which people who see few colours tell apart too. Results of a
// hundred thousand jobs are thinned out to what a picture can show: of each column of pixels, the
// first, least, greatest and last value.
//
// It decides nothing and computes nothing that is cited: numbers are package sim's. Read album.go,
// then figure.go.
package plot

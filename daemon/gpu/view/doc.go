// Package view is the part of a machine's GPUs that a program sees, as CUDA_VISIBLE_DEVICES says.
// The program numbers them from 0, in the order of that variable; the backend, phosd and images use
// the machine's ordinals.
package view

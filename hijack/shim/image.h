/* Code images as programs pass them: by address, without a length. */
#ifndef PHOS_IMAGE_H
#define PHOS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PHOS_LINK_MAGIC        "\x7fPHOSLNK"
#define PHOS_LINK_VERSION      1 /* of texts */
#define PHOS_LINK_FATBINS      2 /* of fat binaries: a linked one, then those it is made of */
#define PHOS_LINK_HEADER_BYTES 16

/* Finds the beginning and the length of an image: a fat binary, with or without nvcc's wrapper, an
 * ELF file, PTX text, or a container of our linker. Returns false if it is none of these. */
bool phos_image_find(const void *image, const void **begin, size_t *bytes);

/* Joins the parts of a separately compiled program's wrapper (nvcc -rdc=true) in one container,
 * which the caller frees. Returns NULL if it is another kind of image or there is no memory. */
void *phos_image_join(const void *image, size_t *bytes);

#endif

package main

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	spdxType = "application/spdx+json"

	// pushLimit bounds the push of one function: some 20 MB for each platform.
	pushLimit = 10 * time.Minute
)

// push writes the images of a function, their bills of materials and then the index
// that has them all: whoever sees the tag finds everything.
func push(ctx context.Context, repository, tag string, all []built, src source) error {
	ctx, cancel := context.WithTimeout(ctx, pushLimit)
	defer cancel()
	ref, err := name.NewTag(repository + ":" + tag)
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range all {
		descriptor, err := pushOne(ref.Context(), b, options)
		if err != nil {
			return err
		}
		descriptor.Platform = &b.platform
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: b.image, Descriptor: descriptor})
	}
	annotated, ok := mutate.Annotations(index, src.labels(path.Base(repository))).(v1.ImageIndex)
	if !ok {
		return fmt.Errorf("annotate the index of %s", repository)
	}
	if err := remote.WriteIndex(ref, annotated, options...); err != nil {
		return err
	}
	digest, err := annotated.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s@%s\n", ref, digest)
	return nil
}

// pushOne writes one image by its digest, and its bill of materials.
func pushOne(repository name.Repository, b built, options []remote.Option) (v1.Descriptor, error) {
	descriptor, err := partial.Descriptor(b.image)
	if err != nil {
		return v1.Descriptor{}, err
	}
	if err := remote.Write(repository.Digest(descriptor.Digest.String()), b.image, options...); err != nil {
		return v1.Descriptor{}, err
	}
	materials, err := attachment(b.materials, *descriptor)
	if err != nil {
		return v1.Descriptor{}, err
	}
	digest, err := materials.Digest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	return *descriptor, remote.Write(repository.Digest(digest.String()), materials, options...)
}

// attachment is an artifact about an image: one layer, and the type as the type of
// its configuration, which is empty, so that older registries know it too.
func attachment(content []byte, subject v1.Descriptor) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), spdxType)
	img, err := mutate.Append(img, mutate.Addendum{Layer: static.NewLayer(content, spdxType), MediaType: spdxType})
	if err != nil {
		return nil, err
	}
	with, ok := mutate.Subject(img, v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest}).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("make an artifact about %s", subject.Digest)
	}
	return with, nil
}

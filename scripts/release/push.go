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

	// pushLimit is the time limit for the push of one function, about 20 MB per platform.
	pushLimit = 10 * time.Minute
)

// push writes the images of a function, their bills of materials, and then the index that
// lists them. The index is last, so that a visible tag is complete.
func push(ctx context.Context, repository, tag string, images []built, src source) error {
	ctx, cancel := context.WithTimeout(ctx, pushLimit)
	defer cancel()
	ref, err := name.NewTag(repository + ":" + tag)
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	for _, b := range images {
		if err := pushOne(ref.Context(), b, options); err != nil {
			return err
		}
	}
	index, err := indexOf(path.Base(repository), images, src)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(ref, index, options...); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s@%s\n", ref, digest)
	return nil
}

// indexOf returns an index of a function's images, with their platforms.
func indexOf(function string, images []built, src source) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range images {
		descriptor, err := partial.Descriptor(b.image)
		if err != nil {
			return nil, err
		}
		descriptor.Platform = &b.platform
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: b.image, Descriptor: *descriptor})
	}
	annotated, ok := mutate.Annotations(index, src.labels(function)).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("annotate the index of %s", function)
	}
	return annotated, nil
}

// pushOne writes one image by its digest, and its bill of materials.
func pushOne(repository name.Repository, b built, options []remote.Option) error {
	descriptor, err := partial.Descriptor(b.image)
	if err != nil {
		return err
	}
	if err := remote.Write(repository.Digest(descriptor.Digest.String()), b.image, options...); err != nil {
		return err
	}
	materials, err := attachment(b.materials, *descriptor)
	if err != nil {
		return err
	}
	digest, err := materials.Digest()
	if err != nil {
		return err
	}
	return remote.Write(repository.Digest(digest.String()), materials, options...)
}

// attachment returns an artifact that refers to an image. The artifact type is also the
// media type of its empty configuration, for older registries.
func attachment(content []byte, subject v1.Descriptor) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), spdxType)
	img, err := mutate.Append(img, mutate.Addendum{Layer: static.NewLayer(content, spdxType), MediaType: spdxType})
	if err != nil {
		return nil, err
	}
	with, ok := mutate.Subject(img, v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest}).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("create an artifact for %s", subject.Digest)
	}
	return with, nil
}

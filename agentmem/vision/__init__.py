"""Pictures: what a memory policy sees of a task besides text, and how a model takes it in.

    picture      what is stored and sent: encoded bytes, a hash, limits
    directory    which model directories see, and what their tensors are called
    reader       one such model: pictures to patches and to placeholder tokens
    prompting    a prompt with a picture in it
    inputs       the arrays that the model is given beside the ids: patches, places, positions
    sight        embeddings of a batch with its pictures in their places

Nothing else knows of patches, grids or three-dimensional positions. Modules are imported one by one:
`picture` needs nothing heavy, and is part of the data model.
"""

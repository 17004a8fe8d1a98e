"""The contract: what users write, what the operator reports, what pods and operator say.

Imported by the operator and by the pods; imports nothing of the project.
"""
